"""Perplexity and its conversions: the lecture notes' examples, hand counts, definitions."""

import math
from collections import Counter

import pytest

from vaswani_plugin.metrics.perplexity import (
    UNITS,
    TextCounts,
    count_text,
    cross_entropy_rate,
    perplexity,
    rates,
)
from vaswani_plugin.metrics.scored_text import read_scored_text
from vaswani_plugin.text.binary import binarize
from vaswani_plugin.text.dictionary import write_dictionary

TEXT = ["the cat sat", "", "thé 🐈  sat "]


def test_uniform_over_m_words_has_perplexity_m():
    rate = cross_entropy_rate([math.log(1 / 50)] * 7)
    assert math.exp(rate) == pytest.approx(50)
    assert perplexity(rate / math.log(2)) == pytest.approx(50)


def test_the_notes_conversion_of_the_penn_treebank():
    """The notes print "about 77" beside 2 ^ (1.175 * 390000 / 74000), which is 73.1."""
    converted = rates(1.175 * 390_000, TextCounts(0, 74_000, 390_000, 390_000), False)
    assert converted["perplexity_per_word"] == pytest.approx(73.14, abs=0.005)
    assert converted["perplexity_per_word"] != pytest.approx(77, abs=1)


def test_shannons_bit_a_character():
    converted = rates(9, TextCounts(lines=0, words=2, characters=9, bytes=9), False)
    assert (converted["bits_per_character"], converted["bits_per_word"]) == (1, 4.5)
    assert converted["perplexity_per_word"] == pytest.approx(22.6, abs=0.05)  # the notes print 23


def test_counts_by_hand():
    counts = count_text(TEXT)
    assert counts == TextCounts(lines=3, words=6, characters=22, bytes=26)
    assert counts.units("word", with_line_ends=True) == 9
    assert counts.units("byte", with_line_ends=False) == 26


def test_rates_by_hand():
    counts = TextCounts(lines=2, words=8, characters=38, bytes=48)
    counted = rates(100.0, counts, with_line_ends=True)
    assert [counted[f"bits_per_{unit}"] for unit in UNITS] == [10, 2.5, 2]
    assert counted["perplexity_per_word"] == 1024
    alone = rates(100.0, counts, with_line_ends=False)
    assert alone["bits_per_word"] == 12.5 and alone["bits_per_byte"] == pytest.approx(100 / 48)


def test_the_same_model_by_character_and_by_word():
    """A word's probability as a product over its letters: converting equals scoring words."""
    words = "a bad cab fed a bee".split()
    letters = Counter("".join(words) + "." * len(words))  # "." ends a word
    total = letters.total()

    def word_probability(word: str) -> float:
        return math.prod(letters[letter] / total for letter in f"{word}.")

    by_word = math.exp(cross_entropy_rate([math.log(word_probability(word)) for word in words]))
    log_p = [math.log(letters[c] / total) for word in words for c in f"{word}."]
    bits_per_character = cross_entropy_rate(log_p) / math.log(2)
    counts = TextCounts(0, len(words), len(log_p), len(log_p))
    converted = rates(bits_per_character * len(log_p), counts, with_line_ends=False)
    assert converted["perplexity_per_word"] == pytest.approx(by_word)


def test_what_has_no_rate():
    with pytest.raises(ValueError, match="without tokens"):
        cross_entropy_rate([])
    nothing = rates(3.0, TextCounts(0, 0, 3, 3), with_line_ends=True)
    assert nothing["bits_per_word"] is None and nothing["perplexity_per_word"] is None
    assert nothing["bits_per_character"] == 1.0
    assert set(rates(3.0, None, with_line_ends=True).values()) == {None}
    assert perplexity(1e6) == math.inf


def test_an_unk_of_the_text_itself_is_no_loss(tmp_path):
    (tmp_path / "text").write_text("a <unk> b\n")
    write_dictionary([("a", 1)], tmp_path / "dict.txt")
    binarize(str(tmp_path / "text"), tmp_path / "test", [("a", 1)], 1)
    assert read_scored_text(None, tmp_path).tokens.unknown == 2
    assert read_scored_text(tmp_path / "text", tmp_path).tokens.unknown == 1
    (tmp_path / "text").write_text("a\n" * 2)
    with pytest.raises(ValueError, match="has 2 lines, .*/test 1: they must be the same"):
        read_scored_text(tmp_path / "text", tmp_path)
