"""Word pieces as published, by their definition: the likelihood computed anew for every pair."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_plugin.text.wordpiece import (
    LONGEST_PIECE,
    learn_merges,
    likelihood_gain,
    merge_pair,
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
    for pair in learn_merges(words, 5):
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


def test_the_gain_is_not_the_frequency():
    """BPE would merge e and s first; likelihood takes q and u, never seen apart."""
    words = {("q", "u", "e"): 10, ("e", "s"): 12, ("s",): 40, ("e",): 40}
    assert next(learn_merges(words, 1)) == ("q", "u")


def test_the_formula_by_hand():
    """a b a b a: a 3, b 2, (a, b) 2; merged: ab 2, a 1. log P from 3 log 3/5 + 2 log 2/5."""
    gain = likelihood_gain(*np.array([[2.0], [3.0], [2.0]]), np.array([False]), 5)
    expected = (2 * math.log(2 / 3) + math.log(1 / 3)) - (3 * math.log(0.6) + 2 * math.log(0.4))
    assert gain[0] == pytest.approx(expected)


def test_pieces_end_where_they_must():
    words = {tuple("x" * 40): 3, ("a", "", "b"): 9}
    pieces = {"".join(pair) for pair in learn_merges(words, 50)}
    assert pieces and max(map(len, pieces)) <= LONGEST_PIECE
    assert not any("a" in piece or "b" in piece for piece in pieces)
    assert "xx" not in {"".join(pair) for pair in learn_merges(words, 50, taken={"xx"})}


def test_no_piece_is_made_twice():
    words = {tuple("abcabc"): 5, tuple("bcab"): 7, tuple("cabc"): 2}
    pieces = ["".join(pair) for pair in learn_merges(words, 30)]
    assert len(pieces) == len(set(pieces)) > 2
