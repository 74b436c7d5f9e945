"""BLEU by source length and rarity."""

import random
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU

from vaswani_plugin.metrics.bleu import (
    FREQUENCIES,
    LENGTHS,
    average_rank,
    by_bucket,
    group,
    group_evenly,
)
from vaswani_plugin.metrics.segments import Segments


def test_borders_belong_to_the_bucket_that_they_name() -> None:
    buckets = group([1, 10, 11, 20, 50, 51, 400, 0, 5], LENGTHS)
    found = {bucket.label: bucket.members for bucket in buckets}
    assert found == {"1-10": (0, 1, 8), "11-20": (2, 3), "41-50": (4,), "51+": (5, 6)}
    labels = [bucket.label for bucket in group([0, 1, 9, 10, 100, 1000, 10**6, -1], FREQUENCIES)]
    assert labels == ["0", "1-9", "10-99", "100-999", "1000-9999", "10000+"]


def test_even_groups_keep_the_order_and_leave_out_what_has_no_value() -> None:
    values = [9.6, -1.0, 1.0, 30.2, 2.0, 2.0, 70.0, 5.0]
    buckets = group_evenly(values, 3)
    assert [bucket.members for bucket in buckets] == [(2, 4), (5, 7), (0, 3, 6)]
    assert [bucket.label for bucket in buckets] == ["1-2", "2-5", "10-70"]
    assert [bucket.members for bucket in group_evenly([3.0, 1.0], 6)] == [(1,), (0,)]
    assert group_evenly([-1.0], 6) == []


def test_the_rank_counts_the_words_that_are_more_frequent() -> None:
    rng = random.Random(1)
    counts = {f"w{n}": int(rng.paretovariate(0.7)) for n in range(200)}
    for _ in range(20):
        words = rng.choices([*counts, "never"], k=7)
        ranks = [1 + sum(n > counts.get(word, 0) for n in counts.values()) for word in words]
        found = average_rank(words, counts, sorted(counts.values()))
        assert found == pytest.approx(sum(ranks) / 7)
    assert average_rank([], counts, [1]) == -1.0


def rows(sources: list[str], **options) -> dict[str, list]:
    lines = [f"w{number} is the answer here" for number in range(len(sources))]
    tables = by_bucket(Segments(lines, [lines], sources=sources), **options)
    return {key: [(r["bucket"], r["sentences"]) for r in table] for key, table in tables.items()}


def test_words_are_those_of_13a_or_characters_where_nothing_divides_words(tmp_path: Path) -> None:
    training = tmp_path / "train"
    training.write_text(
        "The dog barks.\nThe dog sleeps.\nthe cat\n房子在山上。\n", encoding="utf-8"
    )
    sources = ["A dog, a cat." * 2, "A dog , a cat . " * 2, "房子在山上，离海不远。", ""]
    assert rows(sources) == {"by_length": [("11-20", 3)]}
    sources = ["The dog.", "The dog barks.", "The bird.", "", "the", "山上的房子"]
    found = rows(sources, training=training)["by_rarest_word"]
    assert found == [("0", 2), ("1-9", 3)]
    found = rows(["the", "the", "THE"], training=training, lowercase=True)
    assert found["by_rarest_word"] == [("1-9", 3)]


def test_each_bucket_is_scored_by_itself() -> None:
    hypotheses = ["a b c d e", "a b c x e", "f g h i j k", "x y z"]
    references = ["a b c d e", "a b c d e", "f g h i j l", "x y z"]
    sources = [" ".join("w" * length) for length in (3, 30, 4, 31)]
    found = by_bucket(Segments(hypotheses, [references], sources=sources))["by_length"]
    expected = [
        BLEU().corpus_score([hypotheses[i] for i in rows], [[references[i] for i in rows]]).score
        for rows in ((0, 2), (1,), (3,))
    ]
    assert [row["sacrebleu"] for row in found] == pytest.approx(expected)
    assert len(set(expected)) == 3
