"""Cuts a line that has more subwords than a model takes."""

import re
from collections.abc import Callable, Iterator, Sequence

SENTENCE_END = re.compile(r"▁?[.!?:;…。！？؟।]+")
WORD_BORDERS: dict[str, Callable[[str, str], bool]] = {
    "subword-nmt": lambda before, after: not before.endswith("@@"),
    "sentencepiece": lambda before, after: after.startswith("▁"),
    "none": lambda before, after: True,
}
"""By kind of subwords: a function (before, after) that tells whether a word ends between them."""


def cut(
    tokens: Sequence[str], longest: int, is_word_border: Callable[[str, str], bool]
) -> Iterator[Sequence[str]]:
    """Cut subwords into pieces of at most `longest`.

    The cut is in the second half of the first `longest` subwords: after the last end of a sentence
    there, else after the last whole word there. If there is neither, the piece has `longest`
    subwords.

    Args:
        tokens: the subwords.
        longest: subwords of a piece, at most.
        is_word_border: whether a word ends between two subwords, (before, after).
    """
    start = 0
    while len(tokens) - start > longest:
        places = range(start + longest, start + longest // 2, -1)
        words = [place for place in places if is_word_border(tokens[place - 1], tokens[place])]
        ends = (place for place in words if SENTENCE_END.fullmatch(tokens[place - 1]))
        place = next(ends, words[0] if words else start + longest)
        yield tokens[start:place]
        start = place
    yield tokens[start:]
