"""Attention over few keys, by batched matrix products on a processor.

PyTorch's own kernel never holds the weights, which pays where there are many. It works through the
heads one by one, in small products, and two threads hardly share them: over 12 keys of 341
sentences, 4 heads of 32, they take 17 ms forth and back, the batched products 7 (one thread: 14
and 8). Few weights take no more memory than the outputs, which the kernel keeps.

Axes: B batch, H heads, T queries, S keys, K width of a query and a key, V of a value.
"""

import math

import torch
from torch import Tensor

from vaswani_plugin.modules.linear import has_own_kernels

MOST_KEYS = 32
"""The kernel is as fast from here on."""
NARROW = 32
"""Width of a head up to which the products are faster on one thread, too."""


def is_short(query: Tensor, key: Tensor) -> bool:
    """Whether the products are the faster way.

    Args:
        query: (B, H, T, K).
        key: (B, H, S, K).
    """
    return (
        has_own_kernels(query)
        and query.dtype in (torch.float32, torch.float64)
        and key.size(2) <= MOST_KEYS
        and (key.size(3) <= NARROW or torch.get_num_threads() > 1)
    )


def short_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """Eq. 1 with its gradients, where it `is_short`.

    Args:
        query: (B, H, T, K).
        key: (B, H, S, K).
        value: (B, H, S, V).
        mask: boolean, broadcastable to (B, H, T, S), True where a query may attend.
        is_causal: hide the future. Exclusive with `mask`.

    Returns:
        (B, H, T, V); zeros of a query that may attend to nothing.
    """
    bias = as_bias(mask, query.dtype)
    if torch.is_grad_enabled():
        return _ShortAttention.apply(query, key, value, bias, is_causal)
    return attend(query, key, value, bias, is_causal)[0]


def as_bias(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """What to add to the scores: 0 where the mask is True, -inf elsewhere; of the mask's shape."""
    if mask is None:
        return None
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, -math.inf)


def attend(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_causal: bool
) -> tuple[Tensor, Tensor]:
    """`short_attention` without gradients.

    Args:
        query: (B, H, T, K).
        key: (B, H, S, K).
        value: (B, H, S, V).
        bias: see `as_bias`.
        is_causal: hide the future.

    Returns:
        (B, H, T, V), and the weights, (B H, T, S), which `attend_backward` needs.
    """
    heads = query.shape[:2]
    nothing = None
    if is_causal:
        bias = query.new_full((query.size(2), key.size(2)), -math.inf).triu_(1)
    elif bias is None:
        bias = query.new_zeros(())
    else:
        nothing = bias.amax(dim=-1, keepdim=True).eq(-math.inf)
        own = bias.view((1,) * (4 - bias.dim()) + bias.shape)
        bias = own.expand(*heads, -1, -1).flatten(0, 1)
    scores = torch.baddbmm(bias, _flat(query), _flat(key).mT, alpha=_scale(query))
    weights = scores.softmax(dim=-1)
    if nothing is not None and nothing.any():
        weights.unflatten(0, heads).masked_fill_(nothing, 0.0)
    return weights.bmm(_flat(value)).unflatten(0, heads), weights


def attend_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `attend`.

    Args:
        grad: of its result, (B, H, T, V).
        query: (B, H, T, K).
        key: (B, H, S, K).
        value: (B, H, S, V).
        weights: (B H, T, S).

    Returns:
        Those of the query, the key and the value, in their shapes.
    """
    grad, heads = _flat(grad), query.shape[:2]
    of_weights = grad.bmm(_flat(value).mT)
    # softmax: d score = weight (d weight - sum over the keys of weight d weight)
    of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
    of_scores *= _scale(query)
    grads = of_scores.bmm(_flat(key)), of_scores.mT.bmm(_flat(query)), weights.mT.bmm(grad)
    return tuple(each.unflatten(0, heads) for each in grads)


def _scale(query: Tensor) -> float:
    return 1 / math.sqrt(query.size(3))


def _flat(x: Tensor) -> Tensor:
    """(B, H, ...) -> (B H, ...)."""
    return x.flatten(0, 1)


class _ShortAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, bias, is_causal):
        parts = [x.contiguous() for x in (query, key, value)]  # as the products need them, twice
        attended, weights = attend(*parts, bias, is_causal)
        ctx.save_for_backward(*parts, weights)
        return attended

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return *attend_backward(grad, *ctx.saved_tensors), None, None
