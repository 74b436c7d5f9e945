"""Corpora as lines: only "\\n" ends one, broken input is named, output is whole or not there."""

import contextlib
import gzip
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.scripts import ROOT, assert_one_line_error, run_script
from vaswani_plugin.text import corpus_io, expansion, messages, parallel
from vaswani_plugin.text.progress import progress

SEPARATORS = "one\u0085still one\u2028and one\x0b\x0c\x1c\x1d\x1e\u2029"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_only_newline_ends_a_line(tmp_path, name):
    lines = [SEPARATORS, "", "two"]
    with corpus_io.write_atomically(tmp_path / name) as write:
        for line in lines:
            write(line)
    assert list(corpus_io.read_lines(tmp_path / name)) == lines


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"))))
def test_what_is_written_is_read(tmp_path, lines):
    with corpus_io.write_atomically(tmp_path / "a") as write:
        for line in lines:
            write(line)
    assert list(corpus_io.read_lines(tmp_path / "a")) == lines


def test_windows_line_ends_and_a_missing_last_one(tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\rtwo\nthree")
    assert list(corpus_io.read_lines(tmp_path / "a")) == ["one", "two\rtwo", "three"]


def test_a_byte_order_mark_is_removed_at_the_start_alone(tmp_path):
    mark = b"\xef\xbb\xbf"
    (tmp_path / "a").write_bytes(mark + b"one\n" + mark + b"two\n")
    assert list(corpus_io.read_lines(tmp_path / "a")) == ["one", "\ufefftwo"]
    assert [block.lines() for block in parallel.read_blocks(str(tmp_path / "a"), 1)] == [
        ["one"],
        ["\ufefftwo"],
    ]
    (tmp_path / "b").write_bytes(mark)
    assert list(corpus_io.read_lines(tmp_path / "b")) == [""]


def test_invalid_utf8_is_named_with_its_line(tmp_path):
    (tmp_path / "a").write_bytes(b"good\nb\xffad\n")
    with pytest.raises(corpus_io.InputError, match=r"a:2: invalid UTF-8 \(byte 0xff at offset 1 "):
        list(corpus_io.read_lines(tmp_path / "a"))


def test_truncated_gz_is_named(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"many words\n" * 500)[:-12])
    with pytest.raises(corpus_io.InputError, match=r"a\.gz: broken \.gz file"):
        list(corpus_io.read_lines(tmp_path / "a.gz"))


@pytest.mark.parametrize("place", [0, 3, 40, 300, -6])
def test_damaged_gz_is_named(tmp_path, place):
    """Magic number, flags, data, checksum: zlib and gzip each find their part."""
    content = bytearray(gzip.compress(b"".join(b"%d words\n" % (i * i) for i in range(500))))
    content[place] ^= 255
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(corpus_io.InputError, match=r"a\.gz"):
        list(corpus_io.read_lines(tmp_path / "a.gz"))


def test_lines_before_a_bad_one_are_given_first(tmp_path):
    (tmp_path / "a").write_bytes(b"one\ntwo\r\n\xff\n")
    lines = corpus_io.read_lines(tmp_path / "a")
    assert [next(lines), next(lines)] == ["one", "two"]
    with pytest.raises(corpus_io.InputError, match="a:3: "):
        next(lines)


def test_a_line_is_given_as_soon_as_it_has_come():
    """A reader of a pipe must not wait for what comes after."""
    read, write = os.pipe()
    with open(read, "rb") as stream:
        lines = corpus_io.decode_lines(stream, "pipe")
        os.write(write, b"first\nsec")
        assert next(lines) == "first"
        os.write(write, b"ond\n")
        assert next(lines) == "second"
        os.close(write)
        assert list(lines) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old\n")
    with pytest.raises(RuntimeError), corpus_io.write_atomically(target) as write:
        write("new")
        raise RuntimeError
    assert target.read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_equal_content_compresses_to_equal_bytes(tmp_path):
    for name in ("a.gz", "b.gz"):
        with corpus_io.write_atomically(tmp_path / name) as write:
            write("same")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


@pytest.mark.parametrize(
    "script",
    [
        *("binarize.py", "bpe.py", "bundle.py", "check_corpus.py", "fetch.py"),
        *("normalize_tokenize.py", "toy_translation.py", "unpack.py", "wordpiece.py"),
    ],
)
def test_help_works_from_anywhere(tmp_path, script):
    done = run_script(f"data-prep/{script}", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ")


def test_a_missing_file_is_one_line(tmp_path):
    done = run_script("data-prep/check_corpus.py", tmp_path / "none.en", tmp_path / "none.de")
    assert_one_line_error(done, "check_corpus.py: error:", "none.en", "No such file")


def test_an_output_that_is_a_folder_is_named(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(IsADirectoryError) as caught, corpus_io.write_atomically(tmp_path / "out"):
        pass
    assert caught.value.filename == str(tmp_path / "out")


def test_a_pipe_or_device_is_written_to_and_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    with corpus_io.write_atomically(tmp_path / "fifo") as write:
        write("line")
    assert os.read(reader, 100) == b"line\n"
    os.close(reader)
    assert (tmp_path / "fifo").is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["fifo"]


def test_a_link_keeps_pointing_where_it_does(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "file")
    for text in ("new", "newer"):
        with corpus_io.write_atomically(tmp_path / "link") as write:
            write(text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "elsewhere" / "file").read_text() == f"{text}\n"


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
        "toy_translation.py": ("--output", out / "o"),
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


@pytest.mark.parametrize("case", [case for case in CASES if case != "toy_translation.py"])
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


class Terminal:
    """Something that says it is a terminal and keeps what is written."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        """As a stream."""

    def isatty(self) -> bool:
        """It says so."""
        return True


def advance_by(steps: list[int]) -> Callable[..., None]:
    """Reports these steps to a progress of 100."""

    def work(total: int | None, **options) -> None:
        with progress("label", total, **options) as advance:
            for step in steps:
                advance(step)

    return work


def test_progress_in_a_log_is_a_line_each_tenth(capsys):
    advance_by([1] * 100)(100, unit="pairs", seconds=0)
    lines = capsys.readouterr().err.split("\n")
    assert lines == [*(f"label: {10 * i} pairs of 100 pairs ({10 * i}%)" for i in range(1, 11)), ""]
    advance_by([1] * 100)(100)
    assert capsys.readouterr().err == "", "work of less than ten seconds needs no line"
    advance_by([500_000, 2_000_000])(None, seconds=0)
    assert capsys.readouterr().err == "label: 0.5 MB\nlabel: 2.5 MB\n"


def test_progress_on_a_terminal_is_a_bar(monkeypatch):
    terminal = Terminal()
    with contextlib.redirect_stderr(terminal):
        advance_by([50, 50])(100, unit="pairs", seconds=0)
    assert "label:" in terminal.text and "\r" in terminal.text and "\n" not in terminal.text


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(expansion, "ALWAYS_EXPANDED", 10_000)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(3_000_000)))
    with pytest.raises(corpus_io.InputError, match=r"a\.gz: expands to over 200 times its size"):
        with corpus_io.open_binary(path) as stream:
            stream.read()
    # As repetitive as a corpus can be, and far from it.
    lines = [f"line {number}" for number in range(30_000)]
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    assert list(corpus_io.read_lines(path)) == lines


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1, 2", b"\xff", b"[" * 100_000, b"1" * 5000, b"nul", rb'["\uD800"]']
)
def test_json_that_is_none_is_named(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(corpus_io.InputError, match=r"x\.json: not JSON .*: make it again"):
        corpus_io.read_json(tmp_path / "x.json", "make it again")


def test_json_with_all_of_unicode(tmp_path):
    (tmp_path / "x.json").write_text(r'["\ud83d\ude00", "\\udder", "\u00e9"]')
    assert corpus_io.read_json(tmp_path / "x.json", "") == ["\U0001f600", "\\udder", "\xe9"]


def test_a_message_is_one_printable_line():
    text = "a\x1b]0;title\x07b\nc\u2028d\udc80e\u202ef ä\U0001f600"
    shown = messages.message_line(text)
    assert shown == r"a\x1b]0;title\x07b\nc\u2028d\udc80e\u202ef ä" + "\U0001f600"
    text = "".join(chr(0x4E00 + n) for n in range(5000))
    start, end = messages.message_line(text).split(" ... ")
    assert text.startswith(start) and text.endswith(end)
    assert len(start) + len(end) == messages.LONGEST_MESSAGE and len(end) == 200
    longest = text[: messages.LONGEST_MESSAGE]
    assert messages.message_line(longest) == longest


def test_a_json_file_is_readable_text_and_complete_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    content = {"ä": [1, None], "\u2028": 0.1}
    corpus_io.write_json(path, content)
    text = path.read_text(encoding="utf-8")
    assert corpus_io.read_json(path, "") == content and '"ä"' in text and text.endswith("}\n")
    with pytest.raises(TypeError):
        corpus_io.write_json(path, {"number": 1, "not JSON": {1, 2}})
    assert path.read_text(encoding="utf-8") == text and list(path.parent.iterdir()) == [path]
    corpus_io.write_json(path, content, indent=None)
    assert path.read_text(encoding="utf-8").count("\n") == 1
