"""Candidates against sorting everything, samples against their distribution; Eq. 14 of Wu et al."""

import math
import random

import numpy as np
import pytest
import search_reference
import torch

from vaswani_plugin.search import hypotheses
from vaswani_plugin.search.options import length_penalty


def random_log_p(sentences, beams, vocabulary, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(sentences, beams, vocabulary, generator=generator)
    return logits.log_softmax(-1), -5 * torch.rand(sentences, beams, generator=generator)


@pytest.mark.parametrize("vocabulary", [7, 64, 1000, 1003, 5007])
@pytest.mark.parametrize("count", [1, 3, 6, 20])
def test_the_best_are_those_of_sorting_all(vocabulary, count):
    log_p, so_far = random_log_p(5, 3, vocabulary)
    log_p[1, 2, vocabulary // 2 :] = -math.inf
    log_p[2, 0] = -math.inf
    values, places = hypotheses.best(log_p.clone(), so_far, count)
    totals = (log_p.numpy() + so_far.numpy()[:, :, None]).reshape(5, -1)
    expected = -np.sort(-totals, axis=1)[:, :count]
    np.testing.assert_array_equal(values.numpy(), expected)
    np.testing.assert_array_equal(np.take_along_axis(totals, places.numpy(), 1), expected)
    assert all(len(set(row)) == count for row in places.tolist())


def test_the_best_may_stand_anywhere_in_the_vocabulary():
    """One outstanding token in turn at every place, among them the remainder of the blocks."""
    vocabulary = 1003
    log_p = torch.zeros(vocabulary, 1, vocabulary)
    log_p[torch.arange(vocabulary), 0, torch.arange(vocabulary)] = 1
    _, places = hypotheses.best(log_p, torch.zeros(vocabulary, 1), 3)
    assert places[:, 0].tolist() == list(range(vocabulary))


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("rows", [1, 4])
def test_a_group_avoids_what_the_is_open_before_it_chose(groups, rows):
    strength, beam, vocabulary = 2.5, 4, 30
    log_p, so_far = random_log_p(3, rows, vocabulary)
    is_open = torch.ones(3, groups, dtype=torch.bool)
    is_open[1, 0] = False
    found = hypotheses.diverse_candidates(log_p.clone(), so_far, beam, groups, strength, is_open)
    w = beam // groups
    for sentence in range(3):
        used = np.zeros(vocabulary)
        for group in range(groups):
            own = range(1) if rows == 1 else range(group * w, (group + 1) * w)
            candidates = []
            for beam_number, row in enumerate(own):
                for token in range(vocabulary):
                    plain = float(log_p[sentence, row, token] + so_far[sentence, row])
                    candidates.append((plain - strength * used[token], plain, token, beam_number))
            candidates.sort(reverse=True)
            candidates = candidates[: 2 * w]
            assert found.tokens[sentence, group].tolist() == [c[2] for c in candidates]
            assert found.beams[sentence, group].tolist() == [c[3] for c in candidates]
            actual = found.log_probabilities[sentence, group].tolist()
            assert actual == pytest.approx([c[1] for c in candidates], abs=1e-5)
            if is_open[sentence, group]:
                for candidate in candidates[:w]:
                    used[candidate[2]] += 1


def truncated(probabilities, top_k, top_p):
    """The distribution that is sampled from, token by token."""
    order = sorted(range(len(probabilities)), key=lambda token: -probabilities[token])
    kept, mass = [], 0.0
    for token in order:
        if (top_k > 0 and len(kept) == top_k) or (top_p > 0 and mass >= top_p):
            break
        kept.append(token)
        mass += probabilities[token]
    return [p / mass if token in kept else 0.0 for token, p in enumerate(probabilities)]


@pytest.mark.parametrize(("top_k", "top_p"), [(-1, -1), (0, 0), (3, -1), (-1, 0.7), (50, -1)])
@pytest.mark.parametrize("rows", [1, 8])
def test_samples_follow_their_distribution(top_k, top_p, rows):
    """40,000 draws: a frequency errs by more than 0.0125 (5 sigma) once in 2 million."""
    torch.manual_seed(3)
    log_p = torch.tensor([0.5, 2.0, -1.0, 1.2, 0.0, -0.3]).log_softmax(0)
    log_p[3] = -math.inf  # forbidden
    so_far = torch.full((5000, rows), -2.0)
    many = log_p.expand(5000, rows, -1)
    found = hypotheses.sampled_candidates(many, so_far, 8, top_k, top_p, None)
    assert found.tokens.shape == (5000, 8, 1) and not found.beams.any()
    frequency = np.bincount(found.tokens.flatten().numpy(), minlength=6) / 40000
    expected = truncated(log_p.softmax(0).tolist(), top_k, top_p)
    assert np.abs(frequency - expected).max() < 0.0125
    assert all(f == 0 for f, p in zip(frequency, expected, strict=True) if p == 0)
    torch.testing.assert_close(found.log_probabilities, log_p[found.tokens] - 2.0)


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.6, 1.5])
def test_length_penalty(alpha):
    for length in range(1, 300):
        expected = search_reference.gnmt_penalty(length, alpha)
        assert abs(length_penalty(length, alpha) - expected) < 1e-10 * expected


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.6, 1.5])
def test_a_search_is_done_when_no_continuation_can_beat_the_kept(alpha):
    rng = random.Random(5)
    rules = hypotheses.PaperRules(alpha, wanted=1)
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
            assert rules.done(ranks, *open_ones, torch.tensor([longest - 1])).tolist() == [is_done]
