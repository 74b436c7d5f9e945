"""Every script from any folder, on a full disk, and with a reader that leaves."""

import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripts import ROOT, assert_one_line_error, run_script

LIMIT = 1 << 14  # bytes that the "disk" takes


@pytest.fixture(scope="module")
def material(tmp_path_factory) -> Path:
    """Inputs, each large enough that no output fits the limit."""
    folder = tmp_path_factory.mktemp("material")
    letters = random.Random(7)
    words = ["".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(2000)]
    text = "".join(f"{words[i]} {words[-i]} {i}\n" for i in range(2000))
    for name in ("train.en", "train.de"):
        (folder / name).write_text(text)
    return folder


def arguments(material: Path, text: Path, out: Path) -> dict[str, tuple]:
    """Command lines that write compressed files and a folder; `text` is what they read first."""
    other = material / "train.de"
    prefixes = [
        flag for s in ("train", "valid", "test") for flag in (f"--{s}", text.with_suffix(""))
    ]
    return {
        "check_corpus.py": (text, other, "--clean", out / "o.en.gz", out / "o.de.gz"),
        "binarize.py": ("--pair", "en-de", *prefixes, "--output", out / "o", "--workers", 1),
    }


CASES = list(arguments(Path("m"), Path("m/train.en"), Path("o")))


def run_limited(
    script: str, *args: object, stdout: int = subprocess.PIPE, limit: int | None = None
):
    """Runs a script that can write files of at most `limit` bytes."""

    def restrict() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [sys.executable, ROOT / "data-prep" / script, *map(str, args)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=300,
        # Python writes half a .pyc where the disk is full, and later fails to import it.
        env=os.environ
        | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "", "OMP_NUM_THREADS": "1"},
        preexec_fn=restrict,
    )
    done.stderr = done.stderr.decode("utf-8")
    return done


def left_under_a_final_name(folder: Path) -> list[Path]:
    """What a later step would take for a finished output."""
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".") and ".part" not in path.suffixes
    ]


@pytest.mark.parametrize("script", CASES)
def test_a_full_disk_is_one_line_and_leaves_no_output(material, tmp_path, script):
    """RLIMIT_FSIZE fails a write as a full disk does (EFBIG for ENOSPC), on every machine."""
    command = arguments(material, material / "train.en", tmp_path)[script]
    done = run_limited(script, *command, limit=LIMIT)
    assert_one_line_error(done, f"{script}: error:", "File too large")
    assert left_under_a_final_name(tmp_path) == []
    assert [path for path in tmp_path.rglob(".*") if path.is_file()] == []
    # The same command with room to write.
    done = run_limited(script, *command)
    assert done.returncode == 0, done.stderr
    assert left_under_a_final_name(tmp_path)


def test_a_reader_that_leaves_is_no_error(material):
    read, write = os.pipe()
    os.close(read)
    text = material / "train.en"
    with open(write, "wb") as pipe:
        done = run_limited(
            "normalize_tokenize.py", "--language", "en", "--input", text, "--workers", 1,
            stdout=pipe.fileno(),
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("script", [p.name for p in sorted((ROOT / "data-prep").glob("*.py"))])
def test_help_works_from_anywhere(tmp_path, script):
    if script != "checkout.py":  # what the others share
        done = run_script(f"data-prep/{script}", "--help", cwd=tmp_path)
        assert done.returncode == 0 and done.stdout.startswith("usage: ")
