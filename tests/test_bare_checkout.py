"""A bare checkout is enough for fairseq's commands: nothing of ours is installed.

An empty environment finds the packages of this one on PYTHONPATH, where Python reads no .pth file:
the link by which the plugin itself is installed has no effect. The checkout's name has a blank.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import PLUGIN, REPO, fairseq_environment, write_toy_corpus
from tests.support.commands import SITE, empty_environment


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of the package and of the scripts."""
    folder = tmp_path_factory.mktemp("check out")
    ignored = shutil.ignore_patterns("__pycache__")
    for part in (PLUGIN, REPO / "data-prep"):
        shutil.copytree(part, folder / part.name, ignore=ignored)
    return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """Python of an empty environment."""
    return empty_environment(tmp_path_factory.mktemp("empty"))


def run(python: Path, cwd: Path, *arguments: object) -> str:
    """Run Python without the plugin; its output."""
    done = subprocess.run(
        [python, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env=fairseq_environment(PYTHONPATH=SITE),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def data(python, tmp_path_factory) -> Path:
    """The toy corpus, binarized."""
    folder = tmp_path_factory.mktemp("work")
    program = "import importlib.util as u; print(u.find_spec('vaswani_plugin'))"
    assert run(python, folder, "-c", program) == "None\n", "it is installed after all"
    write_toy_corpus(folder)
    flags = [f"--{split}pref={split}" for split in ("train", "valid", "test")]
    run(
        *(python, folder, "-m", "fairseq_cli.preprocess"),
        *("--source-lang", "src", "--target-lang", "tgt"),
        *(*flags, "--joined-dictionary", "--destdir", "bin", "--workers", 1),
    )
    return folder / "bin"


@pytest.mark.parametrize(
    "workers",
    [pytest.param(1, id="one"), pytest.param(2, id="spawned", marks=pytest.mark.slow)],
)
def test_training_and_translating(python, checkout, data, tmp_path, workers):
    """One worker's loader of batches is a process of its own; two are spawned, not forked."""
    relative = os.path.relpath(checkout / PLUGIN.name, tmp_path)
    said = run(
        *(python, tmp_path, "-m", "fairseq_cli.train", data, "--user-dir", relative),
        *("--arch", "vaswani_debug", "--max-tokens", 100, "--max-update", 2, "--cpu"),
        *("--distributed-world-size", workers, "--num-workers", 2 - workers),
        *("--save-dir", "saved", "--disable-validation"),
    )
    assert "vaswani_adam" in said
    if workers == 2:
        return  # a checkpoint is the same whoever wrote it
    said = run(
        *(python, tmp_path, "-m", "fairseq_cli.generate", data, "--user-dir", relative, "--cpu"),
        *("--path", "saved/checkpoint_last.pt", "--gen-subset", "valid", "--num-workers", 1),
    )
    assert len(re.findall(r"^H-", said, re.MULTILINE)) == 20


def test_scripts_of_data_preparation(python, checkout, tmp_path):
    """With several workers, too."""
    (tmp_path / "text").write_text("the cat sat on the mat\n" * 50, encoding="utf-8")
    script = os.path.relpath(checkout / "data-prep" / "bpe.py", tmp_path)
    flags = ("--operations", 5, "--output", "codes", "--input", "text", "--workers", 2)
    run(python, tmp_path, script, "learn", *flags)
    applied = run(python, tmp_path, script, "apply", "--codes", "codes", "--input", "text")
    assert applied.replace("@@ ", "").split("\n")[0] == "the cat sat on the mat"
