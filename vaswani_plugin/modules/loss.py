"""Label-smoothed cross-entropy (section 5.4): plain, and fused with the projection.

The gold token gets 1 - epsilon, each of the other V - 1 tokens epsilon / (V - 1).

Axes: N target tokens, D d_model, V vocabulary.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK_ELEMENTS = 1 << 22
"""Logits formed at a time by the fused loss: 16 MiB in float32, about a last-level cache."""


class SmoothedLoss(NamedTuple):
    """Sums over the tokens that are not padding, in nats; `correct` counts arg-max hits."""

    loss: Tensor
    nll: Tensor
    correct: Tensor


def smoothing_weights(epsilon: float, vocabulary: int) -> tuple[float, float]:
    """Probabilities of the smoothed target distribution.

    Args:
        epsilon: mass taken from the gold token, 0 <= epsilon < 1.
        vocabulary: V, at least 2.

    Returns:
        What the gold token gets and what each other token gets.

    Raises:
        ValueError: when an argument is out of range.
    """
    if not 0 <= epsilon < 1:
        raise ValueError(f"label smoothing is {epsilon}; it must be in [0, 1)")
    if vocabulary < 2:
        raise ValueError(f"a vocabulary of {vocabulary} leaves no token to smooth to")
    return 1 - epsilon, epsilon / (vocabulary - 1)


def label_smoothed_cross_entropy(
    logits: Tensor, target: Tensor, epsilon: float, padding_idx: int
) -> tuple[Tensor, Tensor]:
    """Section 5.4, token by token.

    -sum_j q_j log p_j = lse - gold_weight * z_gold - other_weight * (sum_j z_j - z_gold),
    with z the logits and lse = log sum_j exp z_j, because the q_j sum to 1.

    Args:
        logits: (N, V).
        target: gold tokens, (N,).
        epsilon: label smoothing.
        padding_idx: targets with this number count for nothing.

    Returns:
        Smoothed loss and negative log-likelihood of the gold tokens, each (N,), in nats,
        0 at padding; at least in float32.

    Raises:
        ValueError: see `smoothing_weights`.
    """
    gold_weight, other_weight = smoothing_weights(epsilon, logits.size(-1))
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    normalizer = logits.logsumexp(dim=-1)
    gold = logits.gather(-1, target[:, None]).squeeze(-1)
    others = logits.sum(dim=-1) - gold
    padding = target.eq(padding_idx)
    loss = (normalizer - gold_weight * gold - other_weight * others).masked_fill(padding, 0.0)
    nll = (normalizer - gold).masked_fill(padding, 0.0)
    return loss, nll


def fused_label_smoothed_cross_entropy(
    features: Tensor,
    weight: Tensor,
    target: Tensor,
    epsilon: float,
    padding_idx: int,
    count_correct: bool = False,
) -> SmoothedLoss:
    """Projection and smoothed loss in one: the logits never exist all at once.

    Equal to `label_smoothed_cross_entropy(features @ weight.T, ...)`, summed. Works through
    the tokens in chunks and forms the gradients in the forward pass, so that memory does
    not grow with N x V.

    Args:
        features: decoder output, (N, D).
        weight: rows of the projection, (V, D).
        target: gold tokens, (N,).
        epsilon: label smoothing.
        padding_idx: targets with this number count for nothing.
        count_correct: also count the tokens whose logit is the highest.

    Returns:
        The sums as scalars; only `loss` carries a gradient.

    Raises:
        ValueError: see `smoothing_weights`.
    """
    real = target.ne(padding_idx).nonzero().squeeze(-1)
    if real.numel() < target.numel():
        features, target = features.index_select(0, real), target.index_select(0, real)
    return SmoothedLoss(*_FusedLoss.apply(features, weight, target, epsilon, count_correct))


class _FusedLoss(torch.autograd.Function):
    """d loss / d logits = softmax(logits) - q, turned at once into the two products it feeds."""

    @staticmethod
    def forward(ctx, features, weight, target, epsilon, count_correct):
        vocabulary = weight.size(0)
        gold_weight, other_weight = smoothing_weights(epsilon, vocabulary)
        with_features, with_weight = ctx.needs_input_grad[:2]
        accumulate = torch.promote_types(features.dtype, torch.float32)
        loss, nll = torch.zeros(2, dtype=accumulate, device=features.device).unbind()
        correct = torch.zeros((), dtype=torch.long, device=features.device)
        grad_features = torch.empty_like(features) if with_features else None
        grad_weight = torch.zeros_like(weight, dtype=accumulate) if with_weight else None
        weight_sum = weight.sum(dim=0, dtype=accumulate)  # sum_j z_j = features . weight_sum
        rows = max(1, CHUNK_ELEMENTS // vocabulary)
        for start in range(0, target.numel(), rows):
            x, gold_index = features[start : start + rows], target[start : start + rows, None]
            logits = F.linear(x, weight).to(accumulate)
            normalizer = logits.logsumexp(dim=-1, keepdim=True)
            gold = logits.gather(-1, gold_index)
            others = (x.to(accumulate) @ weight_sum)[:, None] - gold
            loss += (normalizer - gold_weight * gold - other_weight * others).sum()
            nll += (normalizer - gold).sum()
            if count_correct:
                correct += logits.argmax(dim=-1, keepdim=True).eq(gold_index).sum()
            if not (with_features or with_weight):
                continue
            gradient = logits.sub_(normalizer).exp_().sub_(other_weight)
            surplus = torch.full_like(gold, other_weight - gold_weight)
            gradient = gradient.scatter_add_(-1, gold_index, surplus).to(features.dtype)
            if with_features:
                torch.mm(gradient, weight, out=grad_features[start : start + rows])
            if with_weight:
                _accumulate_product(grad_weight, gradient, x)
        ctx.save_for_backward(grad_features, grad_weight)
        ctx.weight_dtype = weight.dtype
        ctx.mark_non_differentiable(nll, correct)
        return loss, nll, correct

    @staticmethod
    def backward(ctx, grad_loss, grad_nll, grad_correct):
        grad_features, grad_weight = ctx.saved_tensors
        if grad_features is not None:
            grad_features = grad_features * grad_loss.to(grad_features.dtype)
        if grad_weight is not None:
            grad_weight = (grad_weight * grad_loss).to(ctx.weight_dtype)
        return grad_features, grad_weight, None, None, None


def _accumulate_product(total: Tensor, gradient: Tensor, x: Tensor) -> None:
    """total += gradient^T x, in place where the types allow it."""
    if total.dtype == x.dtype:
        total.addmm_(gradient.t(), x)
    else:
        total += gradient.t() @ x
