"""Codings of language models: every line comes back, no unit of text is a special symbol."""

from pathlib import Path

import pytest
from fairseq.data import Dictionary
from hypothesis import example, given
from hypothesis import strategies as st

from vaswani_plugin.text import bpe_learning, coding
from vaswani_plugin.text.dictionary import SPECIAL_SYMBOLS

TRAINING = [
    "The old doctor's friends didn't see a well-known bird in the garden.",
    "  Two blanks, <unk> and <sep> and </s>, an e-mail: a@@ b.org @@",
    "The garden, the garden; the na\u00efve birds of the garden",
    "",
    "\u4e2d\u6587 \u4e2d\u6587 \u4e2d\u6587",
] * 3
RESERVED = {*SPECIAL_SYMBOLS, coding.SEPARATOR}
LINES = st.text().map(lambda text: text.replace("\n", ""))


@pytest.fixture(scope="module")
def codes(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("coding")
    (folder / "text").write_text("".join(f"{coding.to_letters(x)}\n" for x in TRAINING), "utf-8")
    bpe_learning.learn([str(folder / "text")], 200, 2, str(folder / "codes"))
    return folder / "codes"


@pytest.fixture(scope="module")
def dictionary(codes) -> Dictionary:
    """fairseq's, of all units."""
    path = codes.with_name("dict.txt")
    path.write_text("".join(f"{unit} 1\n" for unit in coding.bpe_units(str(codes))), "utf-8")
    return Dictionary.load(str(path))


@pytest.fixture(scope="module")
def bpe_coding(codes):
    return coding.make_coding("bpe", str(codes))


@given(line=LINES)
@example("")
@example(" ")
@example("  a  \u2205 \u0100 ")
@example("<unk> <sep> </s> <pad> <s> a@@ b@@")
@example("\r\x85\u2028\u2029\x0b\x0c\x1c\x00\u3000\u00a0")
@example("\U0001f600 \u05d0\u05d1")
def test_bpe_gives_every_line_back_through_fairseqs_dictionary(bpe_coding, dictionary, line):
    encode, decode = bpe_coding
    numbers = dictionary.encode_line(encode(line), append_eos=False, add_if_not_exist=False)
    assert not {dictionary.unk(), dictionary.eos(), dictionary.pad()} & set(numbers.tolist())
    assert decode(" ".join(dictionary[number] for number in numbers)) == line


def test_bpe_merges_what_is_frequent(bpe_coding):
    encode, _ = bpe_coding
    assert "garden" in encode("the garden of").split()
    assert len(encode("\u4e2d\u6587").split()) == 1, "bytes of a frequent word were not merged"


def test_whatever_units_a_model_writes_are_text(bpe_coding):
    _, decode = bpe_coding
    assert decode("\u01c3@@ a") == "\ufffda"  # the first byte of two alone
    assert decode("<unk> the") == "<unk> the"
    assert coding.make_coding("characters", None)[1]("a \u2581 <unk> b") == "a \ufffdb"
    assert decode("gar@@") == "gar"
    assert "\n" not in decode(" ".join(chr(0x100 + byte) for byte in range(256)))
    for unit in ("<U+110000>", "<U+D800>", "<U+0041>", "<U+FFFFFF>"):  # they name no space
        assert coding.decode_characters(f"a {unit}") == f"a{unit}"


@given(line=LINES)
@example(" \u2581 <U+2581> <unk> \t\r\x85\u2028\u3000")
def test_characters_come_back(line):
    encode, decode = coding.make_coding("characters", None)
    units, line = encode(line).split(), coding.composed(line)
    assert len(units) == len(line) and not RESERVED & set(units)
    assert decode(" ".join(units)) == line
    # The dictionary's file is read line by line, and split at the last space.
    assert all(unit.split() == [unit] and len(unit.splitlines()) == 1 for unit in units)


@given(line=LINES)
def test_words_come_back_but_for_blanks(line):
    encode, decode = coding.make_coding("words", None)
    words = [word if word not in RESERVED else "<unk>" for word in coding.composed(line).split()]
    assert decode(encode(line)) == " ".join(words)
