"""Corpora as lines: only "\\n" ends one, broken input is named, output is whole or not there."""

import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.scripts import assert_one_line_error, run_script
from vaswani_text import corpus_io

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


def test_invalid_utf8_is_named_with_its_line(tmp_path):
    (tmp_path / "a").write_bytes(b"good\nb\xffad\n")
    with pytest.raises(corpus_io.InputError, match=r"a:2: invalid UTF-8 \(byte 0xff at offset 1 "):
        list(corpus_io.read_lines(tmp_path / "a"))


def test_truncated_gz_is_named(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"many words\n" * 500)[:-12])
    with pytest.raises(corpus_io.InputError, match=r"a\.gz: broken \.gz file"):
        list(corpus_io.read_lines(tmp_path / "a.gz"))


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
    ["binarize.py", "bpe.py", "check_corpus.py", "fetch.py", "normalize_tokenize.py"],
)
def test_help_works_from_anywhere(tmp_path, script):
    done = run_script(f"data-prep/{script}", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ")


def test_a_missing_file_is_one_line(tmp_path):
    done = run_script("data-prep/check_corpus.py", tmp_path / "none.en", tmp_path / "none.de")
    assert_one_line_error(done, "check_corpus.py: error:", "none.en", "No such file")
