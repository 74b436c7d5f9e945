"""Label-smoothed cross-entropy (section 5.4).

The gold token gets 1 - epsilon, each of the other V - 1 tokens epsilon / (V - 1).

Axes: N target tokens, D d_model, V vocabulary.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class SmoothedLoss(NamedTuple):
    """Sums over the tokens that are not padding, in nats; `correct` counts arg-max hits."""

    loss: Tensor
    nll: Tensor
    correct: Tensor


def smoothing_weights(epsilon: float, vocabulary: int) -> tuple[float, float]:
    """Probabilities of the smoothed target distribution.

    Args:
        epsilon: mass taken from the gold token, 0 <= epsilon <= (V - 1) / V.
        vocabulary: V, at least 2.

    Returns:
        The probability of the gold token, and of each other token.

    Raises:
        ValueError: when an argument is out of range.
    """
    if not 0 <= epsilon < 1:
        raise ValueError(f"label smoothing is {epsilon}; it must be in [0, 1)")
    if vocabulary < 2:
        raise ValueError(f"a vocabulary of {vocabulary} leaves no token to smooth to")
    gold, other = 1 - epsilon, epsilon / (vocabulary - 1)
    if gold < other:
        raise ValueError(f"label smoothing {epsilon} gives the gold token less than each other one")
    return gold, other


def label_smoothed_cross_entropy(
    logits: Tensor, target: Tensor, epsilon: float, padding_idx: int
) -> tuple[Tensor, Tensor]:
    """Section 5.4, token by token.

    PyTorch spreads its label smoothing over all V tokens, the gold one included. The paper's
    epsilon, spread over the V - 1 others, is its epsilon V / (V - 1).

    Args:
        logits: (N, V).
        target: gold tokens, (N,).
        epsilon: label smoothing.
        padding_idx: targets with this number count for nothing.

    Returns:
        Smoothed loss and negative log-likelihood of the gold tokens, each (N,), in nats,
        0 at padding; at least in float32. Only the loss carries a gradient.

    Raises:
        ValueError: see `smoothing_weights`.
    """
    vocabulary = logits.size(-1)
    smoothing_weights(epsilon, vocabulary)
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    smoothing = min(1.0, epsilon * vocabulary / (vocabulary - 1))
    options = {"reduction": "none", "ignore_index": padding_idx}
    loss = F.cross_entropy(logits, target, label_smoothing=smoothing, **options)
    return loss, F.cross_entropy(logits.detach(), target, **options)


def projected_loss(
    features: Tensor,
    weight: Tensor,
    target: Tensor,
    epsilon: float,
    padding_idx: int,
    count_correct: bool = False,
) -> SmoothedLoss:
    """The pre-softmax projection (section 3.4) and the smoothed loss of its logits, summed.

    Args:
        features: of the decoder, (N, D).
        weight: rows of the projection, (V, D).
        target, epsilon, padding_idx: see `label_smoothed_cross_entropy`.
        count_correct: also count the tokens whose logit is the highest.
    """
    logits = F.linear(features, weight)
    loss, nll = label_smoothed_cross_entropy(logits, target, epsilon, padding_idx)
    correct = target.new_zeros(())
    if count_correct:
        correct = (logits.argmax(dim=-1).eq(target) & target.ne(padding_idx)).sum()
    return SmoothedLoss(loss.sum(), nll.sum(), correct)
