"""Byte-pair encoding (Sennrich et al. 2016), applied and undone.

Codes are applied by Hugging Face's `tokenizers`, which gives the same units as subword-nmt in a
third of the time, and in little more than linear time for a word of any length. A vocabulary that
limits the units is subword-nmt's; its command also has BPE-dropout (`subword-nmt apply-bpe
--dropout 0.1`). bpe_learning.py learns codes.
"""

import io
from collections.abc import Callable
from functools import lru_cache

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_lines
from vaswani_plugin.text.raw_text import composed

Pair = tuple[str, str]
LineFunction = Callable[[str], str]
WORD_END = "</w>"  # ends the last unit of a word in a table of merges


def read_merges(path: str) -> list[Pair]:
    """Reads a table of merge operations; refuses a file that is none."""
    lines = read_lines(path)
    if next(lines, "").split() != ["#version:", "0.2"]:
        raise UserError(f"{path}: not BPE codes (first line must be '#version: 0.2')")
    pairs: list[Pair] = []
    for number, line in enumerate(lines, start=2):
        units = line.strip("\r\n ").split(" ")
        if len(units) != 2:
            raise UserError(f"{path}:{number}: a line of BPE codes holds two units, not {line!r}")
        pairs.append((units[0], units[1]))
    return pairs


def _word_splitter(path: str) -> Callable[[str], str]:
    """Returns the function from a word to its units, by Hugging Face's tokenizers."""
    from tokenizers.models import BPE

    first: dict[Pair, None] = dict.fromkeys(read_merges(path))  # a pair given twice: the first
    units = {"\0": 0}
    for left, right in first:
        for unit in (left, right, left + right):
            units.setdefault(unit, len(units))
    model = BPE(units, list(first), unk_token="\0", fuse_unk=False, end_of_word_suffix=WORD_END)

    def split(word: str) -> str:
        raw = word.encode()
        places = (token.offsets for token in model.tokenize(word))
        return "@@ ".join(raw[start:end].decode() for start, end in places)

    return split


def _limited_splitter(path: str, vocabulary: str, threshold: int) -> Callable[[str], str]:
    """Returns the function from a word to its units of a vocabulary, by subword-nmt."""
    from subword_nmt.apply_bpe import BPE, read_vocabulary

    read_merges(path)  # refuses what is no table
    try:
        units = read_vocabulary(read_lines(vocabulary), threshold)
    except ValueError as error:
        raise UserError(
            f"{vocabulary}: no lines of a unit and its frequency, as of `subword-nmt get-vocab`"
        ) from error
    if not units:
        raise UserError(f"{vocabulary}: no unit occurs {threshold} times: lower the threshold")
    table = BPE(io.StringIO("\n".join([*read_lines(path), ""])), vocab=units)

    def split(word: str) -> str:
        table.cache = {}  # it has no limit; another thread keeps the one that it has
        return " ".join(table.segment_tokens([word]))

    return split


def make_encoder(path: str, vocabulary: str | None = None, threshold: int = 0) -> LineFunction:
    """Returns the function from a line to its units, by a file of codes.

    With a vocabulary, a file of units and their counts, a unit that is not in it, or rarer than
    `threshold`, is split again until all its parts are in the vocabulary.
    """
    limited = vocabulary and _limited_splitter(path, vocabulary, threshold)
    split = lru_cache(1 << 16)(limited or _word_splitter(path))

    def encode(line: str) -> str:
        words = line.strip(" ")
        if not words:
            return line
        before = len(line) - len(line.lstrip(" "))
        units = " ".join([split(word) for word in composed(words).split(" ") if word])
        return f"{line[:before]}{units}{line[before + len(words) :]}"

    return encode


def join_bpe(line: str) -> str:
    """Undoes byte-pair encoding, as fairseq-generate's --remove-bpe does."""
    return (line + " ").replace("@@ ", "").rstrip(" ")
