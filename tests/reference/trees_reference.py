"""What a well-formed sequence of symbols is, by making all of them from trees; no automaton.

An opening symbol is "(LABEL", a closing one ")" or ")LABEL"; all else is a placeholder.
"""

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


def may_come(
    history: list[str], words: int, limit: int, max_openings: int, symbols: list[str]
) -> set[str]:
    """The symbols that may follow, looked up in the whole history; "" is the end."""
    stack: list[str] = []
    placeholders = run = 0
    for symbol in history:
        run = run + 1 if symbol.startswith("(") else 0
        if symbol.startswith("("):
            stack.append(symbol[1:])
        elif symbol.startswith(")"):
            stack.pop()
        else:
            placeholders += 1
    left = words - placeholders
    if history and not stack:
        return {""}
    allowed = set()
    for symbol in symbols:
        if symbol.startswith("("):
            fits = len(history) + 1 + len(stack) + 1 + left <= limit
            if left and run < max_openings and fits:
                allowed.add(symbol)
        elif symbol.startswith(")"):
            is_own = symbol in (")", f"){stack[-1] if stack else None}")
            if stack and is_own and not run and (len(stack) > 1 or not left):
                allowed.add(symbol)
        elif stack and left:
            allowed.add(symbol)
    return allowed
