"""Output is whole or not there: of the functions, and of every script on a full disk."""

import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripts import ROOT, assert_one_line_error, run_script
from vaswani_plugin.text import corpus_io, output_files


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old\n")
    with pytest.raises(RuntimeError), output_files.write_atomically(target) as write:
        write("new")
        raise RuntimeError
    assert target.read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_equal_content_compresses_to_equal_bytes(tmp_path):
    for name in ("a.gz", "b.gz"):
        with output_files.write_atomically(tmp_path / name) as write:
            write("same")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_an_output_that_is_a_folder_is_named(tmp_path):
    (tmp_path / "out").mkdir()
    with (
        pytest.raises(IsADirectoryError) as caught,
        output_files.write_atomically(tmp_path / "out"),
    ):
        pass
    assert caught.value.filename == str(tmp_path / "out")


def test_a_pipe_or_device_is_written_to_and_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    with output_files.write_atomically(tmp_path / "fifo") as write:
        write("line")
    assert os.read(reader, 100) == b"line\n"
    os.close(reader)
    assert (tmp_path / "fifo").is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["fifo"]


def test_a_link_keeps_pointing_where_it_does(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "file")
    for text in ("new", "newer"):
        with output_files.write_atomically(tmp_path / "link") as write:
            write(text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "elsewhere" / "file").read_text() == f"{text}\n"


def test_a_json_file_is_readable_text_and_complete_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    content = {"ä": [1, None], "\u2028": 0.1}
    output_files.write_json(path, content)
    text = path.read_text(encoding="utf-8")
    assert corpus_io.read_json(path, "") == content and '"ä"' in text and text.endswith("}\n")
    with pytest.raises(TypeError):
        output_files.write_json(path, {"number": 1, "not JSON": {1, 2}})
    assert path.read_text(encoding="utf-8") == text and list(path.parent.iterdir()) == [path]
    output_files.write_json(path, content, indent=None)
    assert path.read_text(encoding="utf-8").count("\n") == 1


LIMIT = 1 << 14  # bytes that the "disk" takes


@pytest.fixture(scope="module")
def material(tmp_path_factory) -> Path:
    """Inputs of every script, each large enough that no output fits the limit."""
    folder = tmp_path_factory.mktemp("material")
    letters = random.Random(7)
    words = ["".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(2000)]
    text = "".join(f"{words[i]} {words[-i]} {i}\n" for i in range(2000))
    for name in ("train.en", "train.de"):
        (folder / name).write_text(text)
    (folder / "empty").mkdir()
    (folder / "codes").write_text("#version: 0.2\na b\n")
    done = run_script(
        "data-prep/wordpiece.py", "learn", "--size", 400, "--input", folder / "train.en",
        "--output", folder / "pieces.model",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def arguments(material: Path, text: Path, out: Path) -> dict[str, tuple]:
    """For each script that writes: its command line, with `text` as what it reads first."""
    other = material / "train.de"
    prefixes = [
        flag for s in ("train", "valid", "test") for flag in (f"--{s}", text.with_suffix(""))
    ]
    plain = ("--input", text, "--output", out / "o", "--workers", 1)
    return {
        "check_corpus.py": (text, other, "--clean", out / "o.en", out / "o.de"),
        "check_corpus.py, packed": (text, other, "--clean", out / "o.en.gz", out / "o.de.gz"),
        "unpack.py": ("--archive", text, "--output", out / "o"),
        "unpack.py, columns": ("--archive", text, "--format", "column:1", "--output", out / "o"),
        "fetch.py": ("--url", text, "--no-checksum", "--output", out / "o"),
        "normalize_tokenize.py": ("--language", "en", *plain),
        "bpe.py, learn": ("learn", "--input", text, "--operations", 5000, "--output", out / "o"),
        "bpe.py, apply": ("apply", "--codes", material / "codes", *plain),
        "wordpiece.py, learn": ("learn", "--input", text, "--size", 500, "--output", out / "o"),
        "wordpiece.py, apply": ("apply", "--model", material / "pieces.model", *plain),
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


@pytest.mark.parametrize("case", CASES)
def test_a_full_disk_is_one_line_and_leaves_no_output(material, tmp_path, case):
    """RLIMIT_FSIZE fails a write as a full disk does (EFBIG for ENOSPC), on every machine."""
    script = case.split(",")[0]
    command = arguments(material, material / "train.en", tmp_path)[case]
    done = run_limited(script, *command, limit=LIMIT)
    assert_one_line_error(done, f"{script}: error:", "File too large")
    assert left_under_a_final_name(tmp_path) == []
    assert [path for path in tmp_path.rglob(".*") if path.is_file()] == []
    # The same command with room to write.
    done = run_limited(script, *command)
    assert done.returncode == 0, done.stderr
    assert left_under_a_final_name(tmp_path)


@pytest.mark.parametrize("case", CASES)
def test_an_unreadable_input_is_one_line_and_leaves_no_output(material, tmp_path, case):
    """A folder under the input's name fails to open for everyone, root too."""
    (tmp_path / "in" / "train.en").mkdir(parents=True)
    (tmp_path / "in" / "train.de").write_text("a\n")
    (tmp_path / "out").mkdir()
    script = case.split(",")[0]
    command = arguments(material, tmp_path / "in" / "train.en", tmp_path / "out")[case]
    assert_one_line_error(run_limited(script, *command), f"{script}: error:", "train.en")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT CHECKED: no /dev/full here")
def test_a_full_disk_behind_standard_output(material):
    text = material / "train.en"
    for script, args in (
        ("normalize_tokenize.py", ("--language", "en", "--input", text, "--workers", 1)),
        ("bpe.py", ("apply", "--codes", material / "codes", "--input", text, "--workers", 1)),
        ("check_corpus.py", (text, material / "train.de")),
    ):
        with open("/dev/full", "wb") as full:
            done = run_limited(script, *args, stdout=full.fileno())
        assert done.returncode == 1
        message = "standard output: No space left on device"
        assert_one_line_error(done, f"{script}: error: {message}")


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
