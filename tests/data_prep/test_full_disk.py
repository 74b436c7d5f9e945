"""Every script from any folder, on a full disk, and with a reader that leaves."""

import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import REPO, Fork, run_program
from tests.support.scripts import assert_one_line_error, run_script

LIMIT = 1 << 14  # bytes that the "disk" takes
SCRIPTS = sorted(path.name for path in (REPO / "data-prep").glob("*.py"))


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    """A file so large that no output fits the limit; the other side is beside it."""
    folder, rng = tmp_path_factory.mktemp("text"), random.Random(7)
    for name in ("train.de", "train.en"):
        lines = (f"{rng.getrandbits(50)} {rng.getrandbits(50)} {n}\n" for n in range(2000))
        (folder / name).write_text("".join(lines))
    return folder / "train.en"


def on_a_full_disk(words: list[str]) -> None:
    """RLIMIT_FSIZE fails a write as a full disk does (EFBIG for ENOSPC), on every machine."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
    run_program(words)


@pytest.mark.parametrize("script", ["check_corpus.py", "binarize.py"])
def test_a_full_disk_is_one_line_and_leaves_no_output(text, tmp_path, script):
    """Of one that writes compressed files, and of one that makes a folder."""
    sides = (text, text.with_suffix(".de"), "--clean", tmp_path / "o.en.gz", tmp_path / "o.de.gz")
    splits = [word for s in ("train", "valid", "test") for word in (f"--{s}", text.with_suffix(""))]
    folder = ("--pair", "en-de", *splits, "--output", tmp_path / "o", "--workers", 1)
    given = sides if script == "check_corpus.py" else folder
    done = Fork(on_a_full_disk, [f"{REPO}/data-prep/{script}", *map(str, given)]).wait()
    assert_one_line_error(done, f"{script}: error:", "File too large")
    assert not any(tmp_path.iterdir())
    done = run_script(f"data-prep/{script}", *given)
    assert done.returncode == 0 and any(tmp_path.iterdir()), done.stderr


def test_a_reader_that_leaves_is_no_error(text):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, REPO / "data-prep" / "normalize_tokenize.py", "--language", "en"]
    with open(write, "wb") as pipe:
        done = subprocess.run(
            [*command, "--input", text, "--workers", "1"], stdout=pipe, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_works_from_anywhere(tmp_path, script):
    if script != "checkout.py":  # what the others share
        done = run_script(f"data-prep/{script}", "--help", cwd=tmp_path)
        assert done.returncode == 0 and done.stdout.startswith("usage: ")
