"""Wu et al.'s length penalty (Eq. 14), and when it lets a search stop."""

import math
import random

import pytest
import search_reference
import torch

from vaswani_plugin.modules.length_penalty import length_penalty
from vaswani_plugin.search.finished import PaperRules

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
def test_a_search_is_done_when_no_continuation_can_beat_the_kept(alpha):
    rng = random.Random(5)
    rules = PaperRules(alpha, wanted=1)
    for _ in range(200):
        log_p = -10 * rng.random()
        shortest = rng.randint(2, 30)
        longest = shortest + rng.randint(0, 30)
        best = max(
            log_p / search_reference.gnmt_penalty(length, alpha)
            for length in range(shortest, longest + 1)
        )
        for kept, is_done in ((best + 1e-5, True), (best - 1e-5, False), (-math.inf, False)):
            ranks = torch.tensor([[kept, -math.inf]], dtype=torch.float64)
            open_ones = torch.tensor([log_p], dtype=torch.float64), shortest - 2
            found = rules.done(ranks, *open_ones, torch.tensor([longest - 1]))
            assert found.tolist() == [is_done]
