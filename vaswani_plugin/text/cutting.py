"""Where a line of more subwords than a model takes is cut."""

import re
from collections.abc import Callable, Iterator, Sequence

SENTENCE_END = re.compile(r"▁?[.!?:;…。！？؟।]+")
WORD_BORDERS: dict[str, Callable[[str, str], bool]] = {
    "subword-nmt": lambda before, after: not before.endswith("@@"),
    "sentencepiece": lambda before, after: after.startswith("▁"),
    "none": lambda before, after: True,
}
"""Kind of subwords: whether a word ends between two of them, (before, after)."""


def cut(
    tokens: Sequence[str], longest: int, is_word_border: Callable[[str, str], bool]
) -> Iterator[Sequence[str]]:
    """Cut subwords into pieces of at most `longest`.

    A cut comes after the last end of a sentence in the second half of what fits, else after the
    last whole word there, else (in one endless word) where it has to.
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
