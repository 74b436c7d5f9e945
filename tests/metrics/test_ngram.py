"""Kneser-Ney against a loop written from Chen & Goodman (1999), and sums to 1."""

import math
import random
from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_plugin.metrics.ngram import (
    FALLBACK_DISCOUNTS,
    NgramModel,
    estimate_discounts,
)

VOCABULARY, START = 12, 0


def make_text(length: int, seed: int) -> list[int]:
    """A random text in which some n-grams are frequent and every token comes."""
    rng = random.Random(seed)
    tokens = list(range(VOCABULARY))
    for _ in range(length - VOCABULARY):
        tokens.append(min(VOCABULARY - 1, int(rng.expovariate(0.5)) + tokens[-1] % 3))
    return tokens


def probability(model: NgramModel, context: tuple[int, ...], token: int) -> float:
    return math.exp(model.log_probabilities([*context, token])[-1])


def reference(train: list[int]) -> dict[tuple[int, ...], float]:
    """Modified Kneser-Ney by its definition: P of every trigram, in dictionaries and loops."""
    padded = [START, START, *train]
    counts = {3: Counter(tuple(padded[i : i + 3]) for i in range(len(train)))}
    for n in (2, 1):
        counts[n] = Counter(gram[1:] for gram in counts[n + 1])
    probability = {(): 1 / VOCABULARY}
    for n in (1, 2, 3):
        of_count = Counter(counts[n].values())
        y = of_count[1] / (of_count[1] + 2 * of_count[2])
        taken = [0.0] + [k - (k + 1) * y * of_count[k + 1] / of_count[k] for k in (1, 2, 3)]
        after = defaultdict(dict)
        for gram, count in counts[n].items():
            after[gram[:-1]][gram[-1]] = count
        new = {}
        for gram in product(range(VOCABULARY), repeat=n):
            lower = probability[gram[1:] if n > 1 else ()]
            seen = after.get(gram[:-1])
            if seen is None:
                new[gram] = lower
                continue
            count, total = seen.get(gram[-1], 0), sum(seen.values())
            left_over = sum(taken[min(c, 3)] for c in seen.values())
            new[gram] = (max(count - taken[min(count, 3)], 0) + left_over * lower) / total
        probability = new
    return probability


def test_equals_the_definition():
    train = make_text(150, 1)  # its counts of counts give discounts at every order
    model, expected = NgramModel(train, 3, VOCABULARY, START), reference(train)
    for gram, value in expected.items():
        assert probability(model, gram[:-1], gram[-1]) == pytest.approx(value, rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(0, 3))
def test_probabilities_sum_to_1(train, order):
    model = NgramModel(train, order, 7, START)
    for context in product(range(0, 7, 3), repeat=2):
        assert sum(probability(model, context, token) for token in range(7)) == pytest.approx(1)


def test_uniform_and_unigram():
    train = [1, 1, 1, 2]
    uniform = NgramModel(train, 0, 50, START)
    assert np.exp(-uniform.log_probabilities([3, 4, 1]).mean()) == pytest.approx(50)
    unigram = NgramModel(train, 1, 50, START)
    # Fallback: 1.5 of the three and 0.5 of the one go to all fifty alike.
    assert probability(unigram, (), 1) == pytest.approx((3 - 1.5 + 2 / 50) / 4)
    assert probability(unigram, (), 2) == pytest.approx((1 - 0.5 + 2 / 50) / 4)
    assert probability(unigram, (), 9) == pytest.approx(2 / 50 / 4)


def test_only_the_past_counts():
    train, test = make_text(200, 1), make_text(60, 3)
    for order in (1, 2, 3):
        model = NgramModel(train, order, VOCABULARY, START)
        whole = model.log_probabilities(test)
        np.testing.assert_array_equal(model.log_probabilities(test[:25]), whole[:25])
        changed = model.log_probabilities([5, *test[1:]])
        np.testing.assert_array_equal(changed[order:], whole[order:])


def test_discounts_by_hand():
    # n1 = 4, n2 = 2, n3 = 1, n4 = 1; Y = 4 / 8
    counts = [1, 1, 1, 1, 2, 2, 3, 4, 9]
    assert estimate_discounts(counts) == pytest.approx((1 - 0.5, 2 - 3 * 0.5 / 2, 3 - 4 * 0.5))
    assert estimate_discounts([1, 1, 5]) == FALLBACK_DISCOUNTS
    # n1 = 6, n2 = 3, n4 = 2, Y = 6 / 12: D_2 is 0 for n3 = 4, and below 0 for more.
    counts = [1] * 6 + [2] * 3 + [4] * 2
    assert estimate_discounts([*counts, *[3] * 4]) == pytest.approx((0.5, 0.0, 2.0))
    assert estimate_discounts([*counts, *[3] * 5]) == FALLBACK_DISCOUNTS


def test_ngrams_that_have_no_numbers():
    with pytest.raises(ValueError, match="too many to be numbered"):
        NgramModel([1], 3, 3_000_000, START)
