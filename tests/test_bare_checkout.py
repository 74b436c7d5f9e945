"""A bare checkout is enough for fairseq's commands, and two rooms could be thrown away.

Packages come by PYTHONPATH, where no .pth file links the plugin; the folder's name has a blank.
"""

import os
import re
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.conftest import REPO, fairseq_environment, write_toy_corpus

SITE = sysconfig.get_paths()["purelib"]
ROOMS = {
    "kernels": ("model/build.py", r"(from vaswani_plugin import |    (return )?)kernels.*\n"),
    "ancestors": ("model/families.py", r'    ".*": "vaswani_plugin\.ancestors\..*\n'),
}
"""Folders that can be thrown away, each with the file that names it and its four lines there."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """The project in a folder of its own, without the rooms."""
    root = tmp_path_factory.mktemp("check out")
    for name in ("vaswani_plugin", "data-prep", "tests", "recipes", "examples"):
        if (REPO / name).exists():
            shutil.copytree(REPO / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(REPO / name, root / name)
    for room, (caller, lines) in ROOMS.items():
        for folder in ("vaswani_plugin", "tests"):
            shutil.rmtree(root / folder / room)
        path = root / "vaswani_plugin" / caller
        text, count = re.subn(lines, "", path.read_text(encoding="utf-8"))
        assert count == 4
        path.write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """Python of an empty environment."""
    venv.create(tmp_path_factory.getbasetemp() / "empty")
    return tmp_path_factory.getbasetemp() / "empty" / "bin" / "python"


def run(python: Path, cwd: Path, *arguments: object, path: str = SITE, timeout: float = 300) -> str:
    """Run Python without the plugin; its output."""
    options = {"cwd": cwd, "capture_output": True, "text": True, "timeout": timeout}
    environment = fairseq_environment(PYTHONPATH=path)
    done = subprocess.run([python, *map(str, arguments)], env=environment, **options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def test_training_and_translating(python, checkout, tmp_path):
    """The loader of batches is a process of its own."""
    program = "import importlib.util as u; print(u.find_spec('vaswani_plugin'))"
    assert run(python, tmp_path, "-c", program) == "None\n", "it is installed after all"
    write_toy_corpus(tmp_path)
    run(
        *(python, tmp_path, "-m", "fairseq_cli.preprocess", "--trainpref", "train"),
        *("--validpref", "valid", "--source-lang", "src", "--target-lang", "tgt"),
        *("--joined-dictionary", "--destdir", "bin", "--workers", 1),
    )
    relative = os.path.relpath(checkout / "vaswani_plugin", tmp_path)
    said = run(
        *(python, tmp_path, "-m", "fairseq_cli.train", "bin", "--user-dir", relative),
        *("--arch", "vaswani_debug", "--max-tokens", 100, "--max-update", 2, "--cpu"),
        *("--num-workers", 1, "--save-dir", "saved", "--disable-validation"),
    )
    assert "vaswani_adam" in said
    said = run(
        *(python, tmp_path, "-m", "fairseq_cli.generate", "bin", "--user-dir", relative, "--cpu"),
        *("--path", "saved/checkpoint_last.pt", "--gen-subset", "valid", "--num-workers", 1),
        *("--task", "vaswani_translation"),
    )
    assert len(re.findall(r"^H-", said, re.MULTILINE)) == 20


@pytest.mark.slow
@pytest.mark.parametrize(
    "tests",
    [
        "tests/modules tests/fairseq_plugin/models tests/model",
        "tests/search tests/devices/test_no_waits.py",
        "tests/fairseq_plugin/tasks tests/figures/test_flops.py tests/inference/test_loading.py",
    ],
)
def test_the_other_tests_pass(python, checkout, tests):
    pytest_of = ("-m", "pytest", "-q", "-p", "no:xdist", "-m", "not slow and not gpu")
    path = f"{checkout}:{checkout / 'data-prep'}:{SITE}"
    run(python, checkout, *pytest_of, *tests.split(), path=path, timeout=1800)
