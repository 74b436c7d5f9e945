"""Label-smoothed cross-entropy (section 5.4).

The gold token gets 1 - epsilon, each of the other V - 1 tokens epsilon / (V - 1), as in the
authors' code. Szegedy et al., whom the paper cites, spread epsilon over all V, as PyTorch does.

Axes: N target tokens, D d_model, V vocabulary.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class SmoothedLoss(NamedTuple):
    """Sums over the tokens that are not padding, in nats.

    Attributes:
        loss: the smoothed loss.
        nll: the negative log-likelihood of the gold tokens.
        correct: number of gold tokens with the highest logit; 0 where they were not counted.
    """

    loss: Tensor
    nll: Tensor
    correct: Tensor


def smoothing_weights(epsilon: float, vocabulary: int) -> tuple[float, float]:
    """Probabilities of the smoothed target distribution.

    Args:
        epsilon: mass taken from the gold token.
        vocabulary: V.

    Returns:
        The probability of the gold token, and of each other token.

    Raises:
        ValueError: the gold token would get less than each other one, or more than 1.
    """
    most = (vocabulary - 1) / vocabulary
    if not 0 <= epsilon <= most:
        raise ValueError(f"label smoothing is {epsilon}; it must be from 0 to {most:.4g}")
    return 1 - epsilon, epsilon / (vocabulary - 1)


def label_smoothed_cross_entropy(
    logits: Tensor, target: Tensor, epsilon: float, padding_idx: int
) -> tuple[Tensor, Tensor]:
    """Compute the label-smoothed loss of every token (section 5.4).

    Args:
        logits: (N, V).
        target: gold tokens, (N,).
        epsilon: label smoothing.
        padding_idx: targets with this number are ignored.

    Returns:
        Smoothed loss and negative log-likelihood of the gold tokens, each (N,), in nats,
        0 at padding, in float32 or better. Only the loss has a gradient.
    """
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    gold_weight, other_weight = smoothing_weights(epsilon, logits.size(-1))
    log_p = logits.log_softmax(dim=-1)
    gold = -F.nll_loss(log_p, target, ignore_index=padding_idx, reduction="none")
    others = log_p.sum(dim=-1).masked_fill(target.eq(padding_idx), 0.0) - gold
    return -gold_weight * gold - other_weight * others, -gold.detach()


def projected_loss(
    features: Tensor,
    weight: Tensor,
    target: Tensor,
    epsilon: float,
    padding_idx: int,
    count_correct: bool = False,
) -> SmoothedLoss:
    """Project features to logits (section 3.4) and sum their smoothed loss (section 5.4).

    Args:
        features: of the decoder, (N, D).
        weight: rows of the projection, (V, D).
        target, epsilon, padding_idx: see `label_smoothed_cross_entropy`.
        count_correct: also count the gold tokens with the highest logit.

    Returns:
        The sums over all tokens.
    """
    logits = F.linear(features, weight)
    loss, nll = label_smoothed_cross_entropy(logits, target, epsilon, padding_idx)
    correct = target.new_zeros(())
    if count_correct:
        correct = (logits.argmax(dim=-1).eq(target) & target.ne(padding_idx)).sum()
    return SmoothedLoss(loss.sum(), nll.sum(), correct)
