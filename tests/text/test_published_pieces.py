"""Word pieces as published, by their definition: the likelihood computed anew for every pair."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_plugin.text.wordpiece_learning import (
    LONGEST_PIECE,
    merge_pair,
    merges_by_likelihood,
)

WORDS = st.dictionaries(
    st.text("abc", min_size=1, max_size=6).map(tuple), st.integers(1, 9), min_size=1, max_size=8
)


def log_likelihood(words: list[tuple[list[str], int]]) -> float:
    """Of all pieces under their own relative frequencies."""
    counts = Counter()
    for pieces, frequency in words:
        for piece in pieces:
            counts[piece] += frequency
    total = sum(counts.values())
    return sum(count * math.log(count / total) for count in counts.values())


def merged(words: list[tuple[list[str], int]], pair: tuple[str, str]) -> list:
    return [(merge_pair(pieces, pair), frequency) for pieces, frequency in words]


def pairs_of(words: list[tuple[list[str], int]]) -> set[tuple[str, str]]:
    return {pair for pieces, _ in words for pair in zip(pieces, pieces[1:], strict=False)}


@given(WORDS)
def test_each_merge_raises_the_likelihood_most(words):
    state, made = [(list(word), count) for word, count in words.items()], set()
    for pair in merges_by_likelihood(words, 5):
        before = log_likelihood(state)
        gains = {
            other: log_likelihood(merged(state, other)) - before
            for other in pairs_of(state)
            if "".join(other) not in made
        }
        assert gains[pair] == pytest.approx(max(gains.values()), abs=1e-9)
        assert gains[pair] > 0
        state = merged(state, pair)
        made.add("".join(pair))
    left = {p for p in pairs_of(state) if "".join(p) not in made}
    if len(made) < 5:  # it stopped, because nothing is gained any more
        before = log_likelihood(state)
        assert all(log_likelihood(merged(state, p)) - before <= 1e-9 for p in left)


def test_pieces_end_where_they_must():
    words = {tuple("x" * 40): 3, ("a", "", "b"): 9}
    pieces = {"".join(pair) for pair in merges_by_likelihood(words, 50)}
    assert pieces and max(map(len, pieces)) <= LONGEST_PIECE
    assert not any("a" in piece or "b" in piece for piece in pieces)
    assert "xx" not in {"".join(pair) for pair in merges_by_likelihood(words, 50, taken={"xx"})}
