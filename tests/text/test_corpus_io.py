"""Corpora as lines: only "\\n" ends one, broken input is named."""

import gzip
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vaswani_plugin.text import corpus_io, expansion, output_files, parallel
from vaswani_plugin.text.messages import InputError

SEPARATORS = "one\u0085still one\u2028and one\x0b\x0c\x1c\x1d\x1e\u2029"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_only_newline_ends_a_line(tmp_path, name):
    lines = [SEPARATORS, "", "two"]
    with output_files.write_atomically(tmp_path / name) as write:
        for line in lines:
            write(line)
    assert list(corpus_io.read_lines(tmp_path / name)) == lines


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"))))
def test_what_is_written_is_read(tmp_path, lines):
    with output_files.write_atomically(tmp_path / "a") as write:
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
    with pytest.raises(InputError, match=r"a:2: invalid UTF-8 \(byte 0xff at offset 1 "):
        list(corpus_io.read_lines(tmp_path / "a"))


def test_truncated_gz_is_named(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"many words\n" * 500)[:-12])
    with pytest.raises(InputError, match=r"a\.gz: broken \.gz file"):
        list(corpus_io.read_lines(tmp_path / "a.gz"))


@pytest.mark.parametrize("place", [0, 3, 40, 300, -6])
def test_damaged_gz_is_named(tmp_path, place):
    """Magic number, flags, data, checksum: zlib and gzip each find their part."""
    content = bytearray(gzip.compress(b"".join(b"%d words\n" % (i * i) for i in range(500))))
    content[place] ^= 255
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.gz"):
        list(corpus_io.read_lines(tmp_path / "a.gz"))


def test_lines_before_a_bad_one_are_given_first(tmp_path):
    (tmp_path / "a").write_bytes(b"one\ntwo\r\n\xff\n")
    lines = corpus_io.read_lines(tmp_path / "a")
    assert [next(lines), next(lines)] == ["one", "two"]
    with pytest.raises(InputError, match="a:3: "):
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


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(expansion, "ALWAYS_EXPANDED", 10_000)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(3_000_000)))
    with pytest.raises(InputError, match=r"a\.gz: expands to over 200 times its size"):
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
    with pytest.raises(InputError, match=r"x\.json: not JSON .*: make it again"):
        corpus_io.read_json(tmp_path / "x.json", "make it again")


def test_json_with_all_of_unicode(tmp_path):
    (tmp_path / "x.json").write_text(r'["\ud83d\ude00", "\\udder", "\u00e9"]')
    assert corpus_io.read_json(tmp_path / "x.json", "") == ["\U0001f600", "\\udder", "\xe9"]


@pytest.mark.parametrize("longer", ["en", "de"])
@pytest.mark.parametrize("common", [0, 2])
def test_sides_of_different_length_are_counted(tmp_path, longer, common):
    for side in ("en", "de"):
        (tmp_path / side).write_text("a line\n" * (common + 3 * (side == longer)))
    pairs = corpus_io.read_pairs(tmp_path / "en", tmp_path / "de")
    for _ in range(common):
        assert next(pairs) == ("a line", "a line")
    message = (
        f"{longer} has {common + 3}" if common else f"the file is empty, .*{longer} has 3 lines"
    )
    with pytest.raises(InputError, match=message):
        next(pairs)
