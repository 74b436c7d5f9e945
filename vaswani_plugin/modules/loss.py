"""Label-smoothed cross-entropy (section 5.4): plain, and fused with the projection.

The gold token gets 1 - epsilon, each of the other V - 1 tokens epsilon / (V - 1).

Axes: N target tokens, D d_model, V vocabulary.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from vaswani_plugin.modules.linear import (
    add_product,
    has_own_kernels,
    product,
    takes_onednn,
    zeros_for_products,
)

CHUNK_ELEMENTS = 3 << 21
"""Logits formed at a time by the fused loss: 24 MiB in float32, which a last-level cache holds."""


def chunk_rows(vocabulary: int, width: int) -> int:
    """Tokens at a time: what the cache holds, and no fewer than fill a matrix of the weight's size.

    Below that, adding to the weight's gradient takes longer than the product that is added.
    """
    return max(1, CHUNK_ELEMENTS // vocabulary, width)


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


def _room_for_logits(features: Tensor, rows: int, vocabulary: int) -> Tensor | None:
    """Memory for one chunk of logits after the other; None where each gets its own.

    oneDNN gives it to each, and automatic mixed precision chooses their precision.
    """
    if not has_own_kernels(features) or takes_onednn(features):
        return None
    return features.new_empty(rows, vocabulary)


def _normalizer(x: Tensor, weight: Tensor, gold: Tensor, probability: Tensor) -> Tensor:
    """lse = log sum_j exp z_j, from the gold token's logit and its probability, exp(z - lse).

    Where that underflows, the row's logits are formed again.

    Args:
        x: (R, D).
        weight: (V, D).
        gold: logits of the gold tokens, (R, 1).
        probability: theirs, (R, 1).

    Returns:
        (R, 1).
    """
    normalizer = gold - probability.log()
    lost = (probability < torch.finfo(probability.dtype).tiny).nonzero()[:, 0]
    if len(lost):
        logits = product(x.index_select(0, lost), weight).to(gold.dtype)
        normalizer[lost] = logits.logsumexp(dim=-1, keepdim=True)
    return normalizer


class _FusedLoss(torch.autograd.Function):
    """d loss / d logits = softmax(logits) - q, turned at once into the two products it feeds.

    q is the same for all tokens but the gold one. That constant goes past the logits: it takes
    from the gradients multiples of the sum of all rows, of the weight and of the features.
    """

    @staticmethod
    def forward(ctx, features, weight, target, epsilon, count_correct):
        (vocabulary, width), tokens = weight.shape, target.numel()
        gold_weight, other_weight = smoothing_weights(epsilon, vocabulary)
        with_features, with_weight = ctx.needs_input_grad[:2]
        accumulate = torch.promote_types(features.dtype, torch.float32)
        # each a tensor of its own, no view: fairseq multiplies a dummy batch's loss by 0 in place
        loss, nll = (torch.zeros((), dtype=accumulate, device=features.device) for _ in range(2))
        correct = torch.zeros((), dtype=torch.long, device=features.device)
        grad_features = torch.empty_like(features) if with_features else None
        grad_weight = zeros_for_products(weight, accumulate) if with_weight else None
        weight_sum = weight.sum(dim=0, dtype=accumulate)  # sum_j z_j = features . weight_sum
        rows, on_cpu = chunk_rows(vocabulary, width), features.device.type == "cpu"
        room = _room_for_logits(features, min(rows, tokens), vocabulary)
        for start in range(0, tokens, rows):
            x, gold_index = features[start : start + rows], target[start : start + rows, None]
            logits = product(x, weight, out=None if room is None else room[: len(x)]).to(accumulate)
            if count_correct:
                correct += logits.argmax(dim=-1, keepdim=True).eq(gold_index).sum()
            gold = logits.gather(-1, gold_index)
            others = (x.to(accumulate) @ weight_sum)[:, None] - gold
            probabilities = torch.softmax(logits, dim=-1, out=logits if on_cpu else None)
            normalizer = _normalizer(x, weight, gold, probabilities.gather(-1, gold_index))
            loss += (normalizer - gold_weight * gold - other_weight * others).sum()
            nll += (normalizer - gold).sum()
            if not (with_features or with_weight):
                continue
            surplus = torch.full_like(gold, other_weight - gold_weight)
            gradient = probabilities.scatter_add_(-1, gold_index, surplus).to(features.dtype)
            if with_features:
                torch.sub(
                    product(gradient, weight.t()),
                    (other_weight * weight_sum).to(features.dtype),
                    out=grad_features[start : start + rows],
                )
            if with_weight:
                add_product(grad_weight, gradient.t(), x.t())
        if with_weight:
            grad_weight -= other_weight * features.sum(dim=0, dtype=accumulate)
        ctx.save_for_backward(grad_features, grad_weight, weight)
        ctx.mark_non_differentiable(nll, correct)
        return loss, nll, correct

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_loss, grad_nll, grad_correct):
        grad_features, of_weight, weight = ctx.saved_tensors
        if grad_features is not None:
            grad_features = grad_features * grad_loss.to(grad_features.dtype)
        grad_weight = None
        if of_weight is not None:
            grad_weight = torch.empty_like(weight)
            torch.mul(of_weight, grad_loss, out=grad_weight)
        return grad_features, grad_weight, None, None, None
