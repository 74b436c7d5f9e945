"""Kneser-Ney against a loop written from Chen & Goodman (1999), and sums to 1."""

import random
from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_plugin.metrics.ngram import NgramModel, estimate_discounts

VOCABULARY, START = 12, 0


def make_text(length: int, seed: int) -> list[int]:
    """A random text in which some n-grams are frequent and every token comes."""
    rng = random.Random(seed)
    tokens = list(range(VOCABULARY))
    for _ in range(length - VOCABULARY):
        tokens.append(min(VOCABULARY - 1, int(rng.expovariate(0.5)) + tokens[-1] % 3))
    return tokens


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
    text = random.Random(3).choices(range(VOCABULARY), k=3000)
    found = np.exp(NgramModel(train, 3, VOCABULARY, START).log_probabilities(text))
    expected, padded = reference(train), [START, START, *text]
    grams = [tuple(padded[i : i + 3]) for i in range(len(text))]
    assert len(set(grams)) > 1000
    np.testing.assert_allclose(found, [expected[gram] for gram in grams], rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(0, 3))
def test_probabilities_sum_to_1(train, order):
    model = NgramModel(train, order, 7, START)
    for context in product(range(0, 7, 3), repeat=2):
        log_p = [model.log_probabilities([*context, token])[-1] for token in range(7)]
        assert np.exp(log_p).sum() == pytest.approx(1)


def test_discounts_by_hand():
    # n1 = 4, n2 = 2, n3 = 1, n4 = 1; Y = 4 / 8
    counts = [1, 1, 1, 1, 2, 2, 3, 4, 9]
    assert estimate_discounts(counts) == pytest.approx([0, 1 - 0.5, 2 - 3 * 0.5 / 2, 3 - 4 * 0.5])
    # n1 = 6, n2 = 3, n4 = 2, Y = 6 / 12: D_2 is 0 for n3 = 4, and below 0 for more.
    counts = [1] * 6 + [2] * 3 + [4] * 2
    assert estimate_discounts([*counts, *[3] * 4]) == pytest.approx([0, 0.5, 0.0, 2.0])
    assert estimate_discounts([*counts, *[3] * 5]) == pytest.approx([0, 0.5, 1.0, 1.5])
