"""Well-formed sequences of symbols, all made from trees: (LABEL opens, ) or )LABEL closes."""

from collections.abc import Iterator
from functools import cache


@cache
def constituents(
    words: int, length: int, labels: tuple[str, ...], tags: tuple[str, ...], labelled: bool
) -> tuple[tuple[str, ...], ...]:
    """All constituents with so many words and exactly so many symbols."""
    if length < 3 or words < 1:
        return ()
    bodies = list(_bodies(words, length - 2, labels, tags, labelled))
    return tuple(
        (f"({label}", *body, f"){label}" if labelled else ")")
        for label in labels
        for body in bodies
    )


def _bodies(words: int, length: int, labels, tags, labelled) -> Iterator[tuple[str, ...]]:
    """Sequences of at least one placeholder or constituent."""
    firsts = [(1, (tag,)) for tag in tags]
    for taken in range(1, words + 1):
        for size in range(3, length + 1):
            found = constituents(taken, size, labels, tags, labelled)
            firsts += [(taken, constituent) for constituent in found]
    for taken, first in firsts:
        left, room = words - taken, length - len(first)
        if left == room == 0:
            yield first
        elif left > 0 and room > 0:
            for rest in _bodies(left, room, labels, tags, labelled):
                yield (*first, *rest)


def all_trees(words: int, limit: int, max_openings: int, labels, tags, labelled) -> set[tuple]:
    """All well-formed sequences of at most `limit` symbols, and openings in a row."""
    return {
        tree
        for length in range(limit + 1)
        for tree in constituents(words, length, tuple(labels), tuple(tags), labelled)
        if longest_run(tree) <= max_openings
    }


def longest_run(symbols: tuple[str, ...]) -> int:
    """Most opening symbols in a row."""
    longest = run = 0
    for symbol in symbols:
        run = run + 1 if symbol.startswith("(") else 0
        longest = max(longest, run)
    return longest
