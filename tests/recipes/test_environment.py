"""The environment: what stops an installation, in a line each; only the slow test installs."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from tests.conftest import REPO
from tests.support.scripts import assert_one_line_error, run_bash

ENV = REPO / "recipes" / "lib" / "env.sh"
BASE_PYTHON = Path(sys.base_prefix) / "bin" / "python3"
NOWHERE = "http://127.0.0.1:1/simple"
OFFLINE = {
    **{"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_INDEX_URL": NOWHERE},
    **{"PIP_RETRIES": "0", "PIP_NO_CACHE_DIR": "1", "UV_NO_CACHE": "1", "UV_HTTP_RETRIES": "0"},
    **{"UV_FIND_LINKS": "", "UV_INDEX_URL": NOWHERE, "VASWANI_TORCH_INDEX": NOWHERE},
}


def tools_without(folder: Path, *unwanted: str) -> str:
    """A PATH with links to all of this machine's tools but those whose names begin so."""
    folder.mkdir()
    for directory in ("/usr/bin", "/bin", "/usr/local/bin"):
        for tool in Path(directory).iterdir():
            link = folder / tool.name
            if not tool.name.startswith(unwanted) and not os.path.lexists(link):
                link.symlink_to(tool)
    return str(folder)


def install(venv: Path, **environment: str) -> subprocess.CompletedProcess:
    """Runs env.sh for a folder, by default with the interpreter below this one."""
    settings = {"VASWANI_VENV": str(venv), "PYTHON": str(BASE_PYTHON), "VASWANI_GROUPS": ""}
    return run_bash(ENV, **(settings | OFFLINE | environment))


def last_line(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr.strip().split("\n")[-1]


def test_a_folder_of_something_else(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("")
    assert_one_line_error(install(tmp_path / "photos"), "is not empty and no Python environment")
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.jpg"]


@pytest.mark.parametrize("has_uv", [True, False], ids=["uv", "no-uv"])
def test_no_network_then_an_interrupted_installation(tmp_path, has_uv):
    venv = tmp_path / "my venv"
    path = tools_without(tmp_path / "bin", "uv")
    if has_uv:
        (tmp_path / "bin" / "uv").symlink_to(shutil.which("uv"))
    last = last_line(install(venv, PATH=path))
    assert last.startswith(f"env: error: {'packages' if has_uv else 'uv'}: "), last
    assert f"check network and disk, and start again (log: {venv}/install.log)" in last
    assert not list(venv.glob(".ready-*"))
    assert (venv / ".installing").exists()
    # As if it had been killed half-way: packages may be there in part.
    (venv / "lib" / "half-copied").write_text("")
    install(venv, PATH=path)
    assert not (venv / "lib" / "half-copied").exists()
    assert (venv / "pyvenv.cfg").exists()


def write_stamps(venv: Path, *groups: str) -> None:
    key = f'VASWANI_ROOT="{REPO}"; source "{ENV}"; vaswani_env_is_current; echo "$vaswani_env_key"'
    done = run_bash("-c", key, VASWANI_ENV_FUNCTIONS_ONLY="1", VASWANI_VENV=str(venv))
    for group in groups:
        (venv / f".ready-{group}").write_text(done.stdout)


@pytest.fixture
def complete(tmp_path) -> Path:
    """A folder that looks like a complete environment of this repository."""
    venv = tmp_path / "complete"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    (venv / "pyvenv.cfg").write_text("home = x\n")
    write_stamps(venv, "recipes")
    return venv


@pytest.fixture
def copy(tmp_path) -> Path:
    """Another checkout, as far as env.sh reads it."""
    (tmp_path / "copy" / "recipes" / "lib").mkdir(parents=True)
    for name in ("recipes/lib/env.sh", "uv.lock", "pyproject.toml"):
        shutil.copy(REPO / name, tmp_path / "copy" / name)
    return tmp_path / "copy"


def test_a_complete_environment_starts_at_once(complete):
    show = f'source "{ENV}"; command -v python'
    done = run_bash("-c", show, VASWANI_VENV=str(complete), VASWANI_GROUPS="")
    assert done.stdout.strip() == str(complete / "bin" / "python")
    assert done.stderr == ""


@pytest.mark.parametrize("change", ["stamp", "interpreter", "group", "folder", "uv.lock"])
def test_a_change_brings_the_installer_back(complete, copy, change):
    settings = {"PYTHON": "/no/such/python", "VASWANI_GROUPS": ""}
    if change == "stamp":
        (complete / ".ready-recipes").write_text("of another lock")
    elif change == "interpreter":
        (complete / "bin" / "python").unlink()
    elif change == "group":
        settings["VASWANI_GROUPS"] = "test"
    elif change == "folder":
        complete = complete.rename(complete.with_name("moved"))
    else:
        with open(copy / change, "a") as file:
            file.write("# one more line\n")
    settings |= {"VASWANI_VENV": str(complete)}
    done = run_bash(copy / "recipes" / "lib" / "env.sh", **settings)
    assert_one_line_error(done, "/no/such/python is missing")


@pytest.mark.parametrize(
    ("owner", "given", "refused"),
    [
        *(("a checkout", "link", True), ("a checkout", "VASWANI_VENV", True)),
        *(("gone", "VASWANI_VENV", False), ("a checkout", "own copy", False)),
    ],
)
def test_another_environment_is_left_alone(complete, copy, tmp_path, owner, given, refused):
    """But for one that was copied or moved with its checkout."""
    package = complete / "lib" / "python3.11" / "site-packages" / "vaswani_plugin-0.dist-info"
    package.mkdir(parents=True)
    (tmp_path / "a checkout").mkdir()
    url = (tmp_path / owner).as_uri()
    (package / "direct_url.json").write_text(f'{{"url":"{url}","dir_info":{{"editable":true}}}}')
    if given == "link":
        (copy / ".venv").symlink_to(complete)
    elif given == "own copy":
        complete.rename(copy / ".venv")
    venv = complete if given == "VASWANI_VENV" else copy / ".venv"
    settings = OFFLINE | {"VASWANI_VENV": str(venv)}
    last = last_line(run_bash(copy / "recipes" / "lib" / "env.sh", **settings))
    assert (f"is the environment of {tmp_path / owner}: remove the link" in last) == refused
    assert str(venv) in last and (venv / ".installing").exists() != refused


def test_an_interrupted_group_leaves_the_rest_usable(complete):
    (complete / "kept").touch()
    for _ in range(2):  # the first one is cut off by the network
        last = last_line(install(complete, PYTHON="", VASWANI_GROUPS="test"))
        assert last.startswith("env: error: packages: ") and (complete / ".installing").exists()
        assert install(complete).stdout.startswith("environment ready: ")
        lines = (complete / "lock.txt").read_text().splitlines(keepends=True)
        earlier = [line for line in lines if not line.startswith("pytest==")]
        (complete / "complete.txt").write_text("".join(earlier))
    (command,) = re.findall("== packages .*", (complete / "install.log").read_text())[1:]
    assert re.findall("--reinstall-package=(\\S+)", command) == ["pytest"]
    assert (complete / "kept").exists()


def test_another_python_than_the_environments_is_refused(complete, tmp_path):
    python = tmp_path / "python3.12"
    python.write_text('#!/usr/bin/env bash\n[[ "$*" == *version_info* ]] || echo Python 3.12.0\n')
    python.chmod(0o755)
    done = install(complete, PYTHON=str(python))
    assert_one_line_error(done, f"{python} is Python 3.12.0, {complete} has Python 3.", "delete it")
    assert install(complete, PYTHON=sys.executable).stdout.startswith("environment ready: ")


def test_two_at_a_time_wait_for_each_other(complete):
    (complete / ".ready-recipes").unlink()
    settings = OFFLINE | {"VASWANI_VENV": str(complete), "VASWANI_GROUPS": "", "PYTHON": ""}
    with open(complete / ".vaswani.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        waiting = subprocess.Popen(["bash", ENV], env=os.environ | settings, **pipes)
        assert "another process is installing" in waiting.stderr.readline()
        write_stamps(complete, "recipes")
    out, errors = waiting.communicate(timeout=300)
    assert (out.startswith("environment ready: "), errors) == (True, "")


def test_the_lock_is_up_to_date_and_names_no_mirror():
    check = ["uv", "lock", "--check", "--offline", "--no-cache", "--directory", REPO]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for package in tomllib.loads((REPO / "uv.lock").read_text())["package"]:
        pypi = {"registry": "https://pypi.org/simple"}
        assert package["name"] == "vaswani-plugin" or package["source"] == pypi


@pytest.mark.slow
def test_an_installation_without_a_compiler_that_is_killed_goes_on(tmp_path):
    """Once with all packages; killed after some seconds, then started again."""
    venv = tmp_path / "venv"
    path = tools_without(tmp_path / "bin", "uv", "gcc", "g++", "cc", "c++", "clang", "x86_64-linux")
    settings = {"VASWANI_VENV": str(venv), "PYTHON": str(BASE_PYTHON), "VASWANI_GROUPS": ""}
    settings |= {"PATH": path, "CC": "false", "CXX": "false"}
    started = subprocess.Popen(
        ["bash", ENV], stderr=subprocess.PIPE, env=os.environ | settings, start_new_session=True
    )
    while b"torch" not in (line := started.stderr.readline()) and line:
        time.sleep(0.1)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    assert (venv / ".installing").exists()
    done = run_bash(ENV, **settings)
    if "env: error: uv: " in done.stderr:
        pytest.skip(f"no package index can be reached: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("environment ready: ")
    for command in ("vaswani", "fairseq-train", "fairseq-generate"):
        subprocess.run([venv / "bin" / command, "--help"], check=True, stdout=subprocess.DEVNULL)
