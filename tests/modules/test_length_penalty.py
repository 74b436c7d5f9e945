"""Wu et al.'s length penalty (Eq. 14) and the bound that stops the search."""

import random

import pytest
import search_reference

from vaswani_plugin.modules.length_penalty import length_penalty
from vaswani_plugin.search.finished import best_reachable_score

ALPHAS = [-0.5, 0.0, 0.3, 0.6, 1.0, 1.5]


@pytest.mark.parametrize("alpha", ALPHAS)
def test_length_penalty(alpha):
    for length in range(1, 300):
        expected = search_reference.gnmt_penalty(length, alpha)
        assert abs(length_penalty(length, alpha) - expected) < 1e-10 * expected


def test_length_1_costs_nothing_and_alpha_0_ranks_by_probability():
    assert all(length_penalty(1, alpha) == 1 for alpha in ALPHAS)
    assert all(length_penalty(length, 0.0) == 1 for length in range(1, 100))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_no_continuation_beats_the_bound_and_one_reaches_it(alpha):
    rng = random.Random(5)
    for _ in range(200):
        log_p = -10 * rng.random()
        shortest = rng.randint(1, 30)
        longest = shortest + rng.randint(0, 30)
        bound = best_reachable_score(log_p, shortest, longest, alpha)
        reachable = [
            log_p / search_reference.gnmt_penalty(length, alpha)
            for length in range(shortest, longest + 1)
        ]
        assert bound == pytest.approx(max(reachable), rel=1e-12)
