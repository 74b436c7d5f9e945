"""Codings of one language's text for language models: from a raw line to units, and back.

    words       the words between blanks, as in wikitext and the Penn Treebank, in Unicode's form
                NFC. Words that are not in the training text become <unk>, several blanks one.
    characters  one unit for each character, in form NFC. The space is ▁; other white space and ▁
                itself are named, as in <U+0009>. Lossless but for the form, if all are known.
    bpe         byte-pair encoding (Sennrich et al. 2016) of the raw line's UTF-8 bytes. Lossless
                for every line; there are no unknown units.

A line's end is no unit: fairseq writes </s> there. `SEPARATOR` separates an article from its
summary; no text is encoded as this symbol.

`bpe` writes bytes as letters, so that codes can be learned and read as text: printable ASCII stays
as it is, every other byte is shifted to U+0100 and above. The characters < and @ are shifted too,
so that no unit of text equals a special symbol of the dictionary or looks like the joint @@.
"""

import re

from vaswani_plugin.text.bpe import WORD_END, LineFunction, join_bpe, make_encoder, read_merges
from vaswani_plugin.text.dictionary import SPECIAL_SYMBOLS
from vaswani_plugin.text.raw_text import composed

CODES = "codes"  # name of the file with BPE's table of merges, in a data folder and a bundle
SEPARATOR = "<sep>"
UNKNOWN = "<unk>"
_RESERVED = dict.fromkeys((*SPECIAL_SYMBOLS, SEPARATOR), UNKNOWN)
_SPACE = "\u2581"
_NAMED = re.compile(r"<U\+([0-9A-F]{4})>")
NOTHING = "\u2205"  # an empty word: two spaces in a row have one between them

_PRINTABLE = set(range(0x21, 0x7F)) - set(b"<@")
LETTERS = {b: chr(b if b in _PRINTABLE else 0x100 + b) for b in range(256) if chr(b) not in "\n "}
"""The letters in which `bpe` writes bytes; the space and the line end are none."""
_BYTES = {ord(letter): byte for byte, letter in LETTERS.items()} | {ord(NOTHING): ""}


def encode_characters(line: str) -> str:
    """Encodes each character as a unit."""

    def unit(character: str) -> str:
        if character == " ":
            return _SPACE
        is_named = character.isspace() or character == _SPACE
        return f"<U+{ord(character):04X}>" if is_named else character

    return " ".join(map(unit, composed(line)))


def decode_characters(units: str) -> str:
    """Undoes `encode_characters`; an unknown unit becomes U+FFFD."""

    def character(unit: str) -> str:
        named = _NAMED.fullmatch(unit)
        if named and ((space := chr(int(named[1], 16))).isspace() or space == _SPACE):
            return space
        return {_SPACE: " ", UNKNOWN: "\ufffd"}.get(unit, unit)

    return "".join(map(character, units.split()))


def to_letters(line: str) -> str:
    """Writes the bytes of a raw line as letters, words between single spaces: BPE's input."""
    words = line.encode("utf-8").decode("latin-1").translate(LETTERS).split(" ")
    return " ".join(word or NOTHING for word in words) if line else ""


def from_letters(text: str) -> str:
    """Undoes `to_letters`; invalid UTF-8 (a model can output any bytes) becomes U+FFFD."""
    raw = text.translate(_BYTES).encode("latin-1", errors="replace")
    return raw.decode("utf-8", errors="replace")


def bpe_units(codes: str) -> list[str]:
    """Lists all units that BPE with a file of merges can make of bytes."""
    units = [unit for letter in LETTERS.values() for unit in (letter, f"{letter}@@")]
    for left, right in dict.fromkeys(read_merges(codes)):
        end = right.endswith(WORD_END)
        units.append(left + right.removesuffix(WORD_END) if end else f"{left}{right}@@")
    return [NOTHING, *dict.fromkeys(units)]


def make_coding(coding: str, codes: str | None) -> tuple[LineFunction, LineFunction]:
    """Returns the functions from a raw line to units, and back; `codes` are the merges of bpe."""
    if coding == "words":
        words = lambda line: " ".join(_RESERVED.get(w, w) for w in composed(line).split())  # noqa: E731
        return words, str
    if coding == "characters":
        return encode_characters, decode_characters
    assert coding == "bpe" and codes is not None, (coding, codes)
    split = make_encoder(codes)
    return lambda line: split(to_letters(line)), lambda units: from_letters(join_bpe(units))
