"""BLEU by source length and by how rare the words are: who belongs where, and each score."""

import random

import pytest
from sacrebleu.metrics import BLEU

from vaswani_plugin.metrics.bleu import sacrebleu_metric
from vaswani_plugin.metrics.buckets import (
    FREQUENCIES,
    LENGTHS,
    average_frequency_ranks,
    bucket_scores,
    group,
    group_evenly,
    rarest_word_frequencies,
    source_lengths,
    word_frequencies,
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
    assert rarest_word_frequencies(sources, word_frequencies(training)) == [2, 1, 0, -1, 1]
    lower = word_frequencies(training, lowercase=True)
    assert rarest_word_frequencies(sources, lower, lowercase=True) == [2, 1, 0, -1, 3]


def test_the_rank_counts_the_words_that_are_more_frequent() -> None:
    training = ["a a a a b b b c", "c c d", "e"]
    # Frequencies: a 4, b 3, c 3, d 1, e 1, so ranks 1, 2, 2, 4, 4, and 6 for any other word.
    found = average_frequency_ranks(["a", "b c", "a d", "e x", "A", ""], word_frequencies(training))
    assert found == [1.0, 2.0, 2.5, 5.0, 6.0, -1.0]
    lower = word_frequencies(training, lowercase=True)
    assert average_frequency_ranks(["A"], lower, lowercase=True) == [1.0]


def test_ranks_are_those_of_a_sorted_vocabulary() -> None:
    generator = random.Random(1)
    words = [f"w{int(generator.paretovariate(0.7))}" for _ in range(3000)]
    training = [" ".join(words[start : start + 9]) for start in range(0, len(words), 9)]
    counts = {word: words.count(word) for word in set(words)}
    sources = [" ".join(generator.choices([*sorted(counts), "never"], k=7)) for _ in range(20)]
    expected = [
        sum(1 + sum(n > counts.get(word, 0) for n in counts.values()) for word in line.split()) / 7
        for line in sources
    ]
    found = average_frequency_ranks(sources, word_frequencies(training))
    assert found == pytest.approx(expected) and len(set(found)) > 15


def test_even_groups_keep_the_order_and_leave_out_what_has_no_value() -> None:
    values = [9.6, -1.0, 1.0, 30.2, 2.0, 2.0, 70.0, 5.0]
    buckets = group_evenly(values, 3)
    assert [bucket.members for bucket in buckets] == [(2, 4), (5, 7), (0, 3, 6)]
    assert [bucket.label for bucket in buckets] == ["1-2", "2-5", "10-70"]
    assert [bucket.members for bucket in group_evenly([3.0, 1.0], 6)] == [(1,), (0,)]
    assert group_evenly([-1.0], 6) == []


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
