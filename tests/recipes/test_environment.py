"""The environment: what stops an installation, with one line each, and when none is needed.

Nothing is installed here: each run is stopped before, or its package index can't be reached.
"""

import hashlib
import importlib.metadata
import os
import resource
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.scripts import ROOT, assert_one_line_error, run_bash

sys.path.append(str(ROOT / "recipes" / "lib"))

import lock_hashes

from vaswani_plugin.text.messages import InputError

ENV = ROOT / "recipes" / "lib" / "env.sh"
BASE_PYTHON = Path(sys.base_prefix) / "bin" / "python3"
OFFLINE = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_FIND_LINKS": "",
    "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
    "PIP_RETRIES": "1",
    "VASWANI_TORCH_INDEX": "http://127.0.0.1:1/simple",
}


def write_tool(folder: Path, name: str, text: str) -> Path:
    """A shell script on the PATH of a test."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
    (folder / name).chmod(0o755)
    return folder / name


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
    settings = {"VASWANI_VENV": str(venv), "PYTHON": str(BASE_PYTHON), "CC": "", "CXX": ""}
    return run_bash(ENV, **(settings | OFFLINE | environment))


def test_an_old_python_given(tmp_path):
    old = write_tool(tmp_path / "bin", "python", "echo 3 9")
    done = install(tmp_path / "venv", PYTHON=str(old))
    assert_one_line_error(done, "is Python 3.9, but 3.11 or newer is needed")


def test_a_python_that_does_not_run(tmp_path):
    done = install(tmp_path / "venv", PYTHON=str(tmp_path / "none"))
    assert_one_line_error(done, "none does not run")


def test_only_an_old_python_found(tmp_path):
    path = tools_without(tmp_path / "bin", "python")
    write_tool(tmp_path / "bin", "python3", "echo 3 8")
    done = install(tmp_path / "venv", PYTHON="", PATH=path)
    assert_one_line_error(done, "no Python 3.11 or newer found (python3 is Python 3.8)", "PYTHON=")


def test_no_headers(tmp_path):
    python = write_tool(
        tmp_path / "bin",
        "python",
        f'case "$*" in *sysconfig*) echo /no/such ;; *) exec "{BASE_PYTHON}" "$@" ;; esac',
    )
    done = install(tmp_path / "venv", PYTHON=str(python))
    assert_one_line_error(done, "/no/such/Python.h", "python3-dev")


def test_no_compiler(tmp_path):
    path = tools_without(tmp_path / "bin", "gcc", "g++", "cc", "c++", "clang")
    assert_one_line_error(install(tmp_path / "venv", PATH=path), "no compiler found", "build-ess")


def test_a_full_disk(tmp_path):
    write_tool(tmp_path / "bin", "df", "echo header; echo / 100000000 99000000 1000000 99% /")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = install(tmp_path / "venv", PATH=path)
    assert_one_line_error(done, "0 GB free", "VASWANI_VENV")


def test_a_folder_of_something_else(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("")
    done = install(tmp_path / "photos")
    assert_one_line_error(done, "is not empty and no Python environment")
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.jpg"]


def test_no_network_then_an_interrupted_installation(tmp_path):
    venv = tmp_path / "my venv"
    done = install(venv)
    assert done.returncode != 0
    last = done.stderr.strip().split("\n")[-1]
    assert last.startswith("env: error: pip could not reach a package index"), done.stderr
    assert f"(log: {venv}/install.log)" in last
    assert "Traceback" not in done.stderr
    assert not (venv / ".vaswani.stamp").exists()
    # As if it had been killed half-way: packages may be there in part.
    (venv / ".vaswani.installing").write_text("")
    (venv / "lib" / "half-copied").write_text("")
    done = install(venv)
    assert "an earlier installation was interrupted: starting over" in done.stderr
    assert not (venv / "lib" / "half-copied").exists()
    assert (venv / "pyvenv.cfg").exists()


def test_another_python_than_the_environment_has(tmp_path):
    venv = tmp_path / "venv"
    write_tool(tmp_path / "venv", "pyvenv.cfg", "")
    (venv / "bin").mkdir()
    write_tool(venv / "bin", "python", "echo 3 12")
    done = install(venv)
    assert "was made with Python 3.12" in done.stderr.strip().split("\n")[-1]


@pytest.fixture
def complete(tmp_path) -> Path:
    """A folder that looks like a complete environment of this repository."""
    venv = tmp_path / "complete"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    (venv / "pyvenv.cfg").write_text("home = x\nversion = 3.11.9\n")
    key = run_bash(
        "-c",
        f'source "{ENV}"; VASWANI_ROOT="{ROOT}" vaswani_env_key',
        VASWANI_ENV_FUNCTIONS_ONLY="1",
        VASWANI_VENV=str(venv),
    )
    assert "python 3.11.9\n" in key.stdout
    (venv / ".vaswani.stamp").write_text(key.stdout)
    return venv


def test_a_complete_environment_starts_at_once(complete):
    before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    done = run_bash("-c", f'source "{ENV}"; command -v python', VASWANI_VENV=str(complete))
    seconds = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before
    assert done.stdout.strip() == str(complete / "bin" / "python")
    assert done.stderr == ""
    assert seconds < 0.5  # of processor time: 0.02 on an idle machine


@pytest.mark.parametrize("change", ["python", "stamp", "interpreter"])
def test_a_change_brings_the_installer_back(complete, change):
    if change == "python":
        (complete / "pyvenv.cfg").write_text("home = x\nversion = 3.12.0\n")
    elif change == "stamp":
        (complete / ".vaswani.stamp").unlink()
    else:
        (complete / "bin" / "python").unlink()
    done = install(complete, PYTHON="/no/such/python")
    assert_one_line_error(done, "PYTHON=/no/such/python does not run")


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_changed_dependencies_bring_the_installer_back(complete, tmp_path, changed):
    copy = tmp_path / "copy"
    (copy / "recipes").mkdir(parents=True)
    shutil.copytree(ROOT / "recipes" / "lib", copy / "recipes" / "lib")
    for name in ("requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    ask = f'source "{copy}/recipes/lib/env.sh"; VASWANI_ROOT="{copy}" vaswani_env_key'
    settings = {"VASWANI_ENV_FUNCTIONS_ONLY": "1", "VASWANI_VENV": str(complete)}
    before = run_bash("-c", ask, **settings).stdout
    with open(copy / changed, "a") as file:
        file.write("# one more line\n")
    assert run_bash("-c", ask, **settings).stdout != before


def test_caches_stay_in_the_environment(complete):
    names = "MPLCONFIGDIR TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR RUFF_CACHE_DIR"
    done = run_bash("-c", f'source "{ENV}"; printenv {names}', VASWANI_VENV=str(complete))
    assert len(done.stdout.split()) == 4
    assert all(line.startswith(f"{complete}/cache/") for line in done.stdout.split())


def lock_lines() -> list[str]:
    """Of requirements.lock."""
    return (ROOT / "requirements.lock").read_text().removesuffix("\n").split("\n")


def test_the_lock_pins_each_package_once():
    pins = [line.removesuffix(" \\") for line in lock_lines() if line and line[0] not in "# "]
    names = [pin.split("==")[0].lower().replace("_", "-") for pin in pins]
    assert all(pin.count("==") == 1 and "+" not in pin for pin in pins)
    assert len(set(names)) == len(names)
    assert {"torch", "fairseq-fixed", "sacrebleu", "pytest"} <= set(names)
    assert "torchaudio" not in names


def test_the_lock_has_what_its_packages_need():
    """`--no-deps` installs what the lock names and nothing else."""
    pins = [line.removesuffix(" \\").split("==") for line in lock_lines() if "==" in line]
    versions = {lock_hashes.normalized(name): version for name, version in pins}
    installed = [each for each in pins if importlib.metadata.version(each[0]) == each[1]]
    unmet = []
    for name, _ in installed:
        for line in importlib.metadata.requires(name) or []:
            need = Requirement(line)
            version = versions.get(lock_hashes.normalized(need.name))
            applies = not need.marker or need.marker.evaluate({"extra": ""})
            if applies and (version is None or version not in need.specifier):
                unmet.append(f"{name} needs {need.name}")
    assert len(installed) > 0.9 * len(pins)
    assert unmet == ["fairseq-fixed needs torchaudio"]  # which nothing imports


def test_every_package_but_torch_has_hashes_as_the_script_writes_them():
    hashes = lock_hashes.read_hashes(lock_lines())
    assert [pin.split("==")[0] for pin, found in hashes.items() if not found] == ["torch"]
    # A source and a wheel, or wheels for several machines; nine in ten packages have both.
    assert sum(len(found) > 1 for found in hashes.values()) > 0.9 * len(hashes)
    assert lock_hashes.with_hashes(lock_lines(), hashes) == lock_lines()


def test_hashes_are_written_under_their_pins():
    lock = ["# a comment", "B.b==1", "    --hash=sha256:" + 64 * "9", "", "torch==2"]
    (one, two) = (f"sha256:{64 * digit}" for digit in "12")
    written = lock_hashes.with_hashes(lock, {"b-b==1": [two, one], "torch==2": [one]})
    assert written == [
        *("# a comment", "B.b==1 \\", f"    --hash={one} \\", f"    --hash={two}", "", "torch==2")
    ]
    assert lock_hashes.with_hashes(written, lock_hashes.read_hashes(written)) == written
    with pytest.raises(InputError, match="B.b==1: the index has no file"):
        lock_hashes.with_hashes(lock, {"b-b==2": [one]})


def test_the_installers_parts_make_up_the_lock():
    """Each package in one part, with all its hashes and nobody else's."""
    script = (ROOT / "recipes" / "lib" / "install.sh").read_text()
    function = script[script.index("locked() {") : script.index("run_pip_locked() {")]
    parts = []
    for names in ("setuptools wheel", "but setuptools wheel torch fairseq-fixed", "fairseq-fixed"):
        assert f" {names}\n" in script
        done = run_bash(
            "-c", f"lock=$1\n{function}\nlocked {names}", "-", ROOT / "requirements.lock"
        )
        parts.append(lock_hashes.read_hashes(done.stdout.split("\n")))
    expected = lock_hashes.read_hashes(lock_lines())
    del expected[next(pin for pin in expected if pin.startswith("torch=="))]
    assert sum(map(len, parts)) == len(expected)
    assert {pin: found for part in parts for pin, found in part.items()} == expected


def write_wheel(path: Path) -> str:
    """An empty wheel of that name; returns its sum."""
    name, version = path.name.split("-")[:2]
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_package_with_another_hash_is_refused(tmp_path):
    copy, wheels = tmp_path / "copy", tmp_path / "wheels"
    shutil.copytree(ROOT / "recipes" / "lib", copy / "recipes" / "lib")
    shutil.copy(ROOT / "pyproject.toml", copy)
    wheels.mkdir()
    lock = ""
    for name, last in (("setuptools", ""), ("wheel", 16 * "0")):
        found = write_wheel(wheels / f"{name}-1.0-py3-none-any.whl")
        lock += f"{name}==1.0 \\\n    --hash=sha256:{found[: 64 - len(last)]}{last}\n"
    (copy / "requirements.lock").write_text(lock + "torch==1.0\nfairseq-fixed==1.0\n")
    settings = {"VASWANI_VENV": str(tmp_path / "venv"), "PYTHON": str(BASE_PYTHON)}
    settings |= OFFLINE | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "CC": "", "CXX": ""}
    done = run_bash(copy / "recipes" / "lib" / "env.sh", **settings)
    assert done.returncode != 0
    last = done.stderr.strip().split("\n")[-1]
    assert "a file for 1/5 setuptools, wheel is not the one that requirements.lock names" in last
    installed = tmp_path / "venv" / "lib"
    assert not list(installed.rglob("wheel-1.0.dist-info"))
    assert not list(installed.rglob("setuptools-1.0.dist-info"))
