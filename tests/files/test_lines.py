"""Text as lines: only "\\n" ends one, broken input is named, for every reader."""

import codecs
import gzip
import io
import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vaswani_plugin.cli.command import LocatedLines, PipedLines, is_piped
from vaswani_plugin.errors import UserError
from vaswani_plugin.files import lines as text_lines
from vaswani_plugin.files.parallel import read_blocks

PIECES = [b"a", b" ", b"\n", b"\r\n", b"\r", b"\0", b"\t", b"\xc2\x85", b"\xe2\x80\xa8", b"\xff"]
PIECES += [b"\xc3", b"\xef\xbb\xbf", "ä".encode(), b"\x1b$"]
BYTES = st.lists(st.sampled_from(PIECES) | st.binary(max_size=2), max_size=20).map(b"".join)


def expected_of(content: bytes) -> tuple[list[str], str]:
    """The lines before the first bad one, and what is wrong with it, by bytes cut at "\\n"."""
    cut = content.split(b"\n")
    lines = []
    for number, raw in enumerate(cut if cut[-1] else cut[:-1]):
        try:
            line = raw.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError:
            return lines, "invalid UTF-8|the file looks like"
        if "\0" in line or "\x1b$" in line:
            return lines, "(NUL|ESC .), as in .* use iconv"
        if "\r" in line:
            return lines, "a carriage return inside"
        lines.append(line.removeprefix("\ufeff") if number == 0 else line)
    return lines, ""


@given(BYTES, st.integers(1, 9))
@example(b"a\r\nb\r", 1)
@example(b"a\r\r\nb\rc\n", 1)
@example(b"\r\n\r\n", 2)
@example(codecs.BOM_UTF8 + b"a\n" + codecs.BOM_UTF8, 1)
def test_every_reader_gives_the_same_lines_or_the_same_error(tmp_path_factory, content, size):
    expected, wrong = expected_of(content)
    path = tmp_path_factory.mktemp("lines") / "x"
    path.write_bytes(content)
    readers = (
        text_lines.decode_lines(io.BytesIO(content), "x"),
        text_lines.read_lines(path),
        (line for block in read_blocks(str(path), size) for line in block.lines()),
        LocatedLines([str(path)]),
    )
    for number, reader in enumerate(readers):
        found = []
        if not wrong:
            assert list(reader) == expected
            continue
        with pytest.raises(UserError, match=f"x:{len(expected) + 1}: {wrong}"):
            found.extend(reader)
        if number != 2:  # a block is whole or not there
            assert found == expected or not found


def test_other_codings_are_named():
    others = {"gzip: name": gzip.compress(b"x"), "xz: unxz": b"\xfd7zXZ\0", "zip": b"PK\3\4\n"}
    others |= {f"{name}: use iconv": "あa".encode(name) for name in ("UTF-16", "ISO-2022-JP")}
    for kind, content in (*others.items(), ("NUL, as in UTF-16: use", "あa".encode("UTF-16LE"))):
        with pytest.raises(UserError, match=f"x:1: .*{kind}"):
            list(text_lines.decode_lines([content], "x"))


def test_a_log_may_hold_carriage_returns(tmp_path):
    (tmp_path / "log").write_bytes(b"10%\r20%\rdone\n")
    assert list(text_lines.read_lines(tmp_path / "log", returns_inside=True)) == ["10%\r20%\rdone"]
    with pytest.raises(UserError, match=r"log:1: .*\(tr "):
        list(text_lines.read_text(tmp_path / "log"))


@pytest.mark.parametrize("place", [0, 40, -6, None])
def test_damaged_gz_is_named(tmp_path, place):
    """Magic number, data, checksum: zlib and gzip each find their part; or cut short."""
    content = bytearray(gzip.compress(b"".join(b"%d words\n" % (i * i) for i in range(500))))
    if place is None:
        del content[-12:]
    else:
        content[place] ^= 255
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.gz"):
        list(text_lines.read_lines(tmp_path / "a.gz"))


def test_lines_have_the_place_of_their_file(tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "b.gz"
    first.write_bytes("\ufeffone\ntwo\u2028same line\n".encode())
    second.write_bytes(gzip.compress(b"\xef\xbb\xbfthree\nfour"))
    lines = LocatedLines([str(first), str(second)])
    places = [(line, lines.place(number)) for number, line in enumerate(lines, start=1)]
    assert places == [
        ("one", f"{first}:1"),
        ("two\u2028same line", f"{first}:2"),
        ("three", f"{second}:1"),
        ("four", f"{second}:2"),
    ]


@pytest.mark.parametrize(
    ("longer", "common", "message"),
    [("en", 2, "en and .*de differ in length: 5 and 2 lines"), ("de", 0, "length: 0 and 3 lines")],
)
def test_sides_of_different_length_are_counted(tmp_path, longer, common, message):
    for side in ("en", "de"):
        (tmp_path / side).write_text("a line\n" * (common + 3 * (side == longer)))
    pairs = text_lines.read_pairs(tmp_path / "en", tmp_path / "de")
    for _ in range(common):
        assert next(pairs) == ("a line", "a line")
    with pytest.raises(UserError, match=message):
        next(pairs)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"", b"[1]", b"2"])
def test_json_that_is_none_is_named(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.json: no JSON object .*: make it again"):
        text_lines.read_json(tmp_path / "x.json", "make it again")


def test_of_a_pipe_it_is_known_whether_the_next_line_is_there():
    """Half a line is not there yet; the end is."""
    reading, writing = os.pipe()
    with open(reading, "rb") as stream:
        lines = PipedLines(stream)
        found = iter(lines)
        assert is_piped(stream) and not lines.at_hand()
        os.write(writing, b"a\nb\nhal")
        assert (next(found), lines.at_hand()) == (b"a\n", True)
        assert (next(found), lines.at_hand()) == (b"b\n", False)
        os.write(writing, b"f")
        os.close(writing)
        assert lines.at_hand() and [*found] == [b"half"] and lines.at_hand() and not [*lines]
