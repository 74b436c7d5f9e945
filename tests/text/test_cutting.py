"""A line with too many subwords is cut at the end of a sentence, else between words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_plugin.text.cutting import WORD_BORDERS, cut


@given(st.lists(st.sampled_from(["a", "b@@", ".", "c"]), max_size=60), st.integers(1, 9))
def test_cuts_lose_nothing_and_spare_words(tokens, longest):
    pieces = list(cut(tokens, longest, WORD_BORDERS["subword-nmt"]))
    assert [token for piece in pieces for token in piece] == tokens
    assert all(len(piece) <= longest for piece in pieces)
    for piece in pieces[:-1]:
        half = piece[longest // 2 :]
        if piece[-1] != ".":
            assert "." not in half[:-1]  # it would have been cut there
        if piece[-1] == "b@@":
            assert len(piece) == longest and all(token == "b@@" for token in half)


@pytest.mark.parametrize(
    ("kind", "tokens", "expected"),
    [
        ("sentencepiece", "\u2581a b \u2581c d \u2581e f", ["\u2581a b", "\u2581c d", "\u2581e f"]),
        ("sentencepiece", "\u2581a . b \u2581c . \u2581d", ["\u2581a . b", "\u2581c . \u2581d"]),
        ("subword-nmt", "a b c@@ d e", ["a b", "c@@ d e"]),
        ("subword-nmt", "a b . c", ["a b .", "c"]),
        ("subword-nmt", "a@@ b@@ c@@ d", ["a@@ b@@ c@@", "d"]),
        ("none", "a b@@ c@@ d", ["a b@@ c@@", "d"]),
    ],
)
def test_where_it_is_cut(kind, tokens, expected):
    pieces = cut(tokens.split(), 3, WORD_BORDERS[kind])
    assert [" ".join(piece) for piece in pieces] == expected
