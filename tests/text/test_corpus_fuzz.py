"""Any text and any bytes through reading, checking, cleaning and unpacking: no line goes astray.

References count in other ways than the code: bytes cut at "\\n", the Unicode database, sets.
"""

import codecs
import gzip
import io
import tempfile
import unicodedata
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
import unpack
from hypothesis import example, given
from hypothesis import strategies as st

from vaswani_plugin.text import cleaning, corpus_io, markup
from vaswani_plugin.text.messages import InputError

# Half of the letters are those that other tools end lines or files at, or count in other ways.
ODD = (
    "\0\t\x0b\x0c\r\x1a\x1c\x1d\x1e\x85\xa0\xad\u200b\u2028\u2029\u3000\ufeff\U0001f600e\u0301|&<>"
)
LETTERS = st.sampled_from(ODD) | st.characters(codec="utf-8", exclude_characters="\n")
LINES = st.lists(st.text(LETTERS | st.sampled_from("ab  "), max_size=12), max_size=8)
PIECES = [b"a", b" ", b"\n", b"\r\n", b"\r", b"\0", b"\t", b"\xc2\x85", b"\xe2\x80\xa8", b"\xff"]
PIECES += [b"\xc3", b"\xef\xbb\xbf", "ä".encode(), b"<seg id='1'>", b"</seg>", b"<url>", b"&#10;"]
BYTES = st.lists(st.sampled_from(PIECES) | st.binary(max_size=2), max_size=20).map(b"".join)

pytestmark = pytest.mark.filterwarnings("error")


def raw_lines(content: bytes) -> list[bytes]:
    """What ends a line is "\\n" or "\\r\\n"; a last line without an end counts."""
    cut = content.split(b"\n")
    lines = [line.removesuffix(b"\r") for line in cut[:-1]]
    return [*lines, cut[-1]] if cut[-1] else lines


def is_text(line: bytes) -> bool:
    """Whether it is valid UTF-8."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class Dribble(io.BytesIO):
    """A stream that gives few bytes at a time, as pipes do."""

    def read1(self, size: int = -1) -> bytes:
        """At most three bytes."""
        return super().read1(3)


@given(BYTES, st.booleans())
@example(b"a\r\nb\r", True)
@example(b"\r\n\r\n", True)
@example(codecs.BOM_UTF8 + b"a\n" + codecs.BOM_UTF8, True)
def test_bytes_are_read_as_their_lines_or_refused(content, dribble):
    expected = raw_lines(content)
    expected[:1] = [line.removeprefix(codecs.BOM_UTF8) for line in expected[:1]]
    found = []
    try:
        for line in corpus_io.decode_lines((Dribble if dribble else io.BytesIO)(content), "x"):
            found.append(line.encode("utf-8"))
    except InputError as error:
        assert not is_text(expected[len(found)])
        assert str(error).startswith(f"x:{len(found) + 1}: invalid UTF-8")
        expected = expected[: len(found)]
    assert found == expected


def pair_files(folder: str, source: bytes, target: bytes) -> tuple[str, str]:
    """Writes both sides, one of them compressed."""
    paths = Path(folder, "a"), Path(folder, "b.gz")
    paths[0].write_bytes(source)
    paths[1].write_bytes(gzip.compress(target, 1))
    return str(paths[0]), str(paths[1])


def joined(lines: list[str]) -> bytes:
    """The content of a file."""
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def accepted(line: str) -> bool:
    """What the check lets pass."""
    return "\r" not in line and line.strip() != ""


@given(LINES, LINES)
def test_check_counts_every_line_or_says_which_is_wrong(source, target):
    # As every reader here does, the reference takes a "\r" before the line end for Windows'.
    left = [line.removesuffix("\r") for line in source]
    right = [line.removesuffix("\r") for line in target]
    with tempfile.TemporaryDirectory() as folder:
        paths = pair_files(folder, joined(source), joined(target))
        try:
            counts = cleaning.check(*paths)
        except InputError as error:
            fine = [accepted(a) and accepted(b) for a, b in zip(left, right, strict=False)]
            assert not all(fine) or len(left) != len(right) or not left
            if not all(fine):
                assert f":{fine.index(False) + 1}: " in str(error)
            return
    assert counts["lines"] == len(left) == len(right)
    assert all(map(accepted, left + right))
    for lines, side in ((left, "source"), (right, "target")):
        assert counts[f"{side}_characters"] == sum(map(len, lines))
        controls = [any(unicodedata.category(c) == "Cc" and c != "\t" for c in x) for x in lines]
        assert counts.get(f"{side}_with_control_characters", 0) == sum(controls)


def kept_by_hand(pairs: list[tuple[str, str]], rules: cleaning.Rules) -> list[tuple[str, str]]:
    """The rules, one after the other over the whole list."""
    words = {line: len(line.split()) for pair in pairs for line in pair}
    pairs = [p for p in pairs if all(map(accepted, p))]
    pairs = [
        p
        for p in pairs
        if not any(unicodedata.category(c) == "Cc" and c != "\t" for c in p[0] + p[1])
    ]
    pairs = [p for p in pairs if max(words[p[0]], words[p[1]]) <= rules.max_length]
    pairs = [p for p in pairs if min(words[p[0]], words[p[1]]) >= rules.min_length]
    pairs = [p for p in pairs if words[p[0]] / words[p[1]] <= rules.max_ratio]
    pairs = [p for p in pairs if words[p[1]] / words[p[0]] <= rules.max_ratio]
    return list(dict.fromkeys(pairs)) if rules.drop_duplicates else pairs


@given(
    st.lists(st.tuples(*2 * [st.text(LETTERS | st.sampled_from("ab   "), max_size=8)]), max_size=9),
    st.builds(cleaning.Rules, st.integers(1, 2), st.integers(2, 4), st.sampled_from([1, 1.5, 3])),
    st.booleans(),
)
def test_cleaned_pairs_are_pairs_and_every_other_is_counted(pairs, rules, twice):
    rules = cleaning.Rules(rules.min_length, rules.max_length, rules.max_ratio, twice)
    pairs = pairs * (1 + twice)
    read = [(left.removesuffix("\r"), right.removesuffix("\r")) for left, right in pairs]
    expected = kept_by_hand(read, rules)
    with tempfile.TemporaryDirectory() as folder:
        paths = pair_files(folder, *(joined([pair[i] for pair in pairs]) for i in (0, 1)))
        outputs = (str(Path(folder, "o.gz")), str(Path(folder, "o")))
        if not expected:
            with pytest.raises(InputError):
                cleaning.clean(*paths, outputs, rules)
            assert len(list(Path(folder).iterdir())) == 2
            return
        report = cleaning.clean(*paths, outputs, rules)
        assert gzip.decompress(Path(outputs[0]).read_bytes()) == joined([p[0] for p in expected])
        assert Path(outputs[1]).read_bytes() == joined([p[1] for p in expected])
    assert report["read"] == len(pairs)
    assert report["kept"] == len(expected)
    assert sum(report["removed"].values()) == len(pairs) - len(expected)


def unpacked(content: bytes, format: str) -> bytes | None:
    """One file through unpack, or None where it is refused; then no output is there."""
    with tempfile.TemporaryDirectory() as folder:
        path, output = str(Path(folder, "file")), Path(folder, "out")
        Path(path).write_bytes(content)
        job = unpack.Job(path, format, str(output))
        try:
            counts = unpack.unpack(path, [job])
        except InputError as error:
            assert len(str(error).split("\n")) == 1
            assert not output.exists()
            return None
        assert counts[job] == output.read_bytes().count(b"\n") > 0
        return output.read_bytes()


@given(BYTES)
@example(b"\xef\xbb\xbf")
@example(b"\xef\xbb\xbf\xef\xbb\xbfa")
@example(b"\xef\xbb")
def test_unpacked_text_is_its_bytes(content):
    expected = content.removeprefix(b"\xef\xbb\xbf")
    found = unpacked(content, "text")
    if not expected:
        assert found is None
    else:
        assert found == (expected if expected.endswith(b"\n") else expected + b"\n")


@given(LINES)
def test_unpacked_columns_lose_no_line(lines):
    read = [line.removesuffix("\r") for line in lines]
    if read:
        read[0] = read[0].removeprefix("\ufeff")
    found = unpacked(joined(lines), "column:2")
    if not read or any("\t" not in line for line in read):
        assert found is None
    else:
        assert found == joined([line.split("\t")[1] for line in read])


@given(st.lists(st.tuples(LINES.map(" ".join), st.sampled_from([0, 1, 2])), max_size=8))
def test_iwslt_text_loses_metadata_alone(lines):
    """Texts that begin like no tag, some of them in title tags, some metadata between."""
    wrapped = {0: "a{}", 1: "<title>a{}</title>", 2: "<keywords>{}</keywords>"}
    content = joined([wrapped[kind].format(escape(text)) for text, kind in lines])
    expected = [f"a{text}" for text, kind in lines if kind != 2]
    found = unpacked(content, "iwslt")
    if not expected:
        assert found is None
        return
    result = found.decode("utf-8").split("\n")[:-1]
    assert len(result) == len(expected)
    assert not any("\r" in line for line in result)
    for line, text in zip(result, expected, strict=True):
        assert line.split() == text.split()


TAGS = st.sampled_from(["seg", "SEG", "Seg"])


@given(st.lists(st.lists(st.tuples(LINES.map("\n".join), TAGS), max_size=4), max_size=4))
def test_test_sets_keep_every_segment_in_its_place(documents):
    """Written by another library's escaping, and read back."""
    content, expected = "<srcset>\n", []
    for name, segments in enumerate(documents):
        content += f'<DOC docid="d{name}">\n<p>'
        for number, (text, tag) in enumerate(segments, start=1):
            content += f'<{tag} id="{number}">{escape(text)}</{tag}>\n'
            expected.append((f"d{name}", str(number), text.split()))
        content += "</p>\n</DOC>\n"
    if not expected:
        with pytest.raises(InputError):
            markup.read_segments(content.split("\n"), "x")
        return
    found = markup.read_segments(content.split("\n"), "x")
    assert [(s.document, s.number, s.text.split()) for s in found] == expected
    assert not any("\n" in s.text or "\r" in s.text for s in found)


@given(BYTES)
def test_any_bytes_are_a_test_set_or_refused(content):
    found = unpacked(content, "sgm")
    if found is not None:
        assert found.count(b"\n") == content.count(b"<seg id='1'>")
        assert b"\r" not in found


ENTITIES = {
    "&amp;": "&",
    "&lt;seg&gt;": "<seg>",
    "&quot;": '"',
    "&ouml;": "ö",
    "&#228;": "ä",
    "&#xE4;": "ä",
    "&#x1F600;": "\U0001f600",
    "&#10;": " ",
    "&#13;&NewLine;": " ",
    "&#xD800;": "\ufffd",
    # No entities: unknown, without the semicolon, beyond all numbers.
    "&notice;": "&notice;",
    "AT&T; ": "AT&T; ",
    "&copy=1": "&copy=1",
    "& ": "& ",
    f"&#{'9' * 5000};": f"&#{'9' * 5000};",
    "&#\u0661;": "&#\u0661;",
}


@given(st.lists(st.sampled_from(sorted(ENTITIES)), max_size=6))
def test_entities_are_resolved_once_and_end_no_line(entities):
    text = "x".join(["", *entities, ""])
    expected = "x".join(["", *(ENTITIES[entity] for entity in entities), ""])
    found = markup.read_segments([f"<seg>{text}</seg>"], "x")[0].text
    assert found == expected
