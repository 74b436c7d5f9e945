"""Label-smoothed loss (section 5.4): equals the NumPy loop."""

import numpy as np
import paper_reference
import pytest
import torch
import torch.nn.functional as F

from vaswani_plugin.modules.loss import (
    label_smoothed_cross_entropy,
    projected_loss,
    smoothing_weights,
)

PAD = 1
TOKENS, WIDTH, VOCABULARY = 13, 5, 9


def make_case(dtype=torch.float64, padded=True, seed=5):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(TOKENS, WIDTH, generator=generator, dtype=torch.float64)
    weight = torch.randn(VOCABULARY, WIDTH, generator=generator, dtype=torch.float64)
    target = torch.randint(2, VOCABULARY, (TOKENS,), generator=generator)
    if padded:
        target[[0, 4, 5, TOKENS - 1]] = PAD
    return features.to(dtype), weight.to(dtype), target


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("padded", [False, True])
def test_plain_loss_is_the_reference(epsilon, padded):
    features, weight, target = make_case(padded=padded)
    logits = 3 * features @ weight.T
    loss, nll = label_smoothed_cross_entropy(logits, target, epsilon, PAD)
    smoothed = paper_reference.smoothed_loss
    expected_loss, expected_nll = smoothed(logits.numpy(), target.tolist(), epsilon, PAD)
    np.testing.assert_allclose(loss.numpy(), expected_loss, atol=1e-10, rtol=0)
    np.testing.assert_allclose(nll.numpy(), expected_nll, atol=1e-10, rtol=0)
    assert (loss[target.eq(PAD)] == 0).all() and (nll[target.eq(PAD)] == 0).all()


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("padded", [False, True])
def test_the_projected_loss_is_the_sum_over_real_tokens(epsilon, padded):
    features, weight, target = make_case(padded=padded)
    logits = features.numpy() @ weight.numpy().T
    target[1:4] = torch.from_numpy(logits.argmax(axis=1))[1:4]  # right, or padding
    features.requires_grad_()
    sums = projected_loss(features, weight, target, epsilon, PAD, count_correct=True)
    assert sums.loss.requires_grad and not sums.nll.requires_grad
    loss, nll = paper_reference.smoothed_loss(logits, target.tolist(), epsilon, PAD)
    np.testing.assert_allclose(sums.loss.item(), sum(loss), atol=1e-10, rtol=0)
    np.testing.assert_allclose(sums.nll.item(), sum(nll), atol=1e-10, rtol=0)
    hits = sum(z.argmax() == t for z, t in zip(logits, target.tolist(), strict=True) if t != PAD)
    assert sums.correct.item() == hits >= 2
    assert projected_loss(features, weight, target, epsilon, PAD).correct.item() == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_float32(dtype):
    features, weight, target = make_case(dtype)
    loss, nll = label_smoothed_cross_entropy(F.linear(features, weight), target, 0.1, PAD)
    assert loss.dtype == nll.dtype == torch.float32


def test_the_smoothed_distribution_sums_to_1():
    for epsilon, vocabulary in ((0.0, 2), (0.1, 40_960), (0.3, 7)):
        gold, other = smoothing_weights(epsilon, vocabulary)
        assert gold == 1 - epsilon
        assert abs(gold + (vocabulary - 1) * other - 1) < 1e-12


@pytest.mark.parametrize("epsilon", [1.0, -0.1, 0.9])
def test_bad_smoothing_is_refused(epsilon):
    """Of 9 tokens the gold one gets the least where the others get 8/9 together."""
    with pytest.raises(ValueError, match=f"smoothing is {epsilon}; it must be from 0 to 0.8889"):
        smoothing_weights(epsilon, 9)
