"""BLEU by source length and by the rarest word: who belongs where, and the score of each."""

import pytest
from sacrebleu.metrics import BLEU

from vaswani_plugin.metrics.bleu import sacrebleu_metric
from vaswani_plugin.metrics.buckets import (
    FREQUENCIES,
    LENGTHS,
    bucket_scores,
    group,
    rarest_word_frequencies,
    source_lengths,
)


def test_borders_belong_to_the_bucket_that_they_name() -> None:
    buckets = group([1, 10, 11, 20, 50, 51, 400, 0, 5], LENGTHS)
    found = {bucket.label: bucket.members for bucket in buckets}
    assert found == {"1-10": (0, 1, 8), "11-20": (2, 3), "41-50": (4,), "51+": (5, 6)}


def test_labels_of_frequencies() -> None:
    labels = [bucket.label for bucket in group([0, 1, 9, 10, 100, 1000, 10**6, -1], FREQUENCIES)]
    assert labels == ["0", "1-9", "10-99", "100-999", "1000-9999", "10000+"]


def test_lengths_count_punctuation_as_words() -> None:
    assert source_lengths(["A dog, a cat.", "A dog , a cat .", ""]) == [6, 6, 0]


def test_frequency_is_that_of_the_rarest_word() -> None:
    training = ["The dog barks.", "The dog sleeps.", "the cat"]
    sources = ["The dog.", "The dog barks.", "The bird.", "", "the"]
    assert rarest_word_frequencies(sources, training) == [2, 1, 0, -1, 1]
    lower = rarest_word_frequencies(sources, training, lowercase=True)
    assert lower == [2, 1, 0, -1, 3]


def test_each_bucket_is_scored_by_itself() -> None:
    hypotheses = ["a b c d e", "a b c x e", "f g h i j k", "x y z"]
    references = ["a b c d e", "a b c d e", "f g h i j l", "x y z"]
    buckets = group([3, 30, 4, 31], LENGTHS)
    found = bucket_scores(buckets, hypotheses, [references], sacrebleu_metric())
    expected = [
        BLEU().corpus_score([hypotheses[i] for i in rows], [[references[i] for i in rows]]).score
        for rows in ((0, 2), (1,), (3,))
    ]
    assert found == pytest.approx(expected)
    assert len(set(found)) == 3
