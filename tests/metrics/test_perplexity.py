"""Perplexity and its conversions: the lecture notes' examples, hand counts, definitions."""

import math

import pytest

from vaswani_plugin.metrics import perplexity as ppl
from vaswani_plugin.metrics.token_stream import count_represented, read_scored_text
from vaswani_plugin.text.binary import write_dictionary
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import Settings, TextSettings

TEXT = ["the cat sat", "", "thé 🐈  sat "]


def test_the_notes_conversion_from_characters_to_words():
    # "about 77", they print beside 2 ^ (1.175 * 390000 / 74000).
    converted = ppl.rates(1.175 * 390_000, ppl.TextCounts(0, 74_000, 390_000, 390_000), False)
    assert converted["bits_per_character"] == pytest.approx(1.175)
    assert converted["perplexity_per_word"] == pytest.approx(73.14, abs=0.005)


def test_counts_and_rates_by_hand(tmp_path):
    counts = ppl.count_text(TEXT)
    assert counts == ppl.TextCounts(lines=3, words=6, characters=22, bytes=26)
    counted, alone = (ppl.rates(90.0, counts, with_line_ends) for with_line_ends in (True, False))
    assert [counted[f"bits_per_{unit}"] for unit in ppl.UNITS] == [90 / 9, 90 / 25, 90 / 29]
    assert [alone[f"bits_per_{unit}"] for unit in ppl.UNITS] == [90 / 6, 90 / 22, 90 / 26]
    assert counted["perplexity_per_word"] == 1024
    pipeline = Pipeline(TextSettings("characters"), tmp_path)  # the counts are of the raw text
    assert count_represented(["e\u0301"], ["\u00e9"], pipeline) == (ppl.TextCounts(1, 1, 2, 3), 0)


def test_what_has_no_rate():
    nothing = ppl.rates(3.0, ppl.TextCounts(0, 0, 3, 3), with_line_ends=True)
    assert nothing["bits_per_word"] is None and nothing["perplexity_per_word"] is None
    assert set(ppl.rates(3.0, None, with_line_ends=True).values()) == {None}
    assert ppl.perplexity(1e6) == math.inf


def test_a_published_figure_in_all_units():
    counts = ppl.TextCounts(lines=10, words=90, characters=390, bytes=400)
    row = ppl.figure(32, "perplexity-per-word", counts)  # the lines' ends count as words
    assert row["bits"] == 500 and row["bits_per_character"] == 500 / 400
    assert ppl.figure(1.25, "bits-per-character", counts) == row


def test_what_a_model_of_another_text_cannot_know(tmp_path):
    (tmp_path / "text").write_text("a c\na <s>\n")
    write_dictionary([("a", 1)], tmp_path / "dict.txt")
    settings = Settings("en", "de", False, False, tokenizer="none", subwords="none")
    pipeline = Pipeline(settings, tmp_path)
    dictionary = Dictionary.load(tmp_path / "dict.txt")
    text = read_scored_text(tmp_path / "text", dictionary, pipeline, True)
    assert text.tokens.unknown == 1
    said = "1 of 2 lines don't come back", "trained on lines apart", "1 of 6 tokens"
    assert len(text.warnings) == 3
    assert all(map(str.__contains__, text.warnings, said))
    (tmp_path / "text").write_text("a <unk> b\n")
    text = read_scored_text(tmp_path / "text", dictionary, pipeline)
    assert text.tokens.unknown == 1, "an <unk> of the text itself is no loss"
