"""Multi-head attention that makes queries, keys and values again in the backward pass.

Kept, they are 0.4 of the 1.4 GB that training the paper's base model keeps of 4,000 tokens. Made
again they are one more product, of the three that their weights cost anyway.

Axes: B batch, H heads, T queries, S keys, D d_model, K width of a head.
"""

import torch
from torch import Tensor, nn

from vaswani_plugin.modules import recomputing
from vaswani_plugin.modules.linear import has_own_kernels, linear, product_backward, rows_of
from vaswani_plugin.modules.short_attention import as_bias, attend, attend_backward, is_short

_ATTEND = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
_ATTEND_BACKWARD = getattr(
    torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward", None
)


def is_worth_it(x: Tensor, memory: Tensor | None, projections: tuple[nn.Linear, ...]) -> bool:
    """Whether queries, keys and values are many, and PyTorch has the kernel and would take it.

    Args:
        x: (B, T, D), to which the queries belong.
        memory: (B, S, D), to which the keys and values do; None for `x`.
        projections: of queries, keys and values.
    """
    if not torch.is_grad_enabled() or _ATTEND is None or not has_own_kernels(x):
        return False
    widths = {projection.out_features for projection in projections}
    if len(widths) > 1 or not torch.backends.cuda.flash_sdp_enabled():
        return False
    positions = sum(source[..., 0].numel() for source in _sources(x, memory))
    return positions * widths.pop() >= recomputing.WORTH_A_PRODUCT


def forgetful_attention(
    x: Tensor,
    memory: Tensor | None,
    projections: tuple[nn.Linear, ...],
    heads: int,
    mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """Concat(head_1, ..., head_h), where `is_worth_it`.

    Args:
        x: (B, T, D).
        memory: (B, S, D); None for self-attention.
        projections: of queries, keys and values.
        heads: h.
        mask: boolean, broadcastable to (B, H, T, S), True where a query may attend.
        is_causal: hide the future.

    Returns:
        (B, T, H K).
    """
    bias = as_bias(mask, x.dtype)
    parameters = [each for one in projections for each in (one.weight, one.bias)]
    return _ForgetfulAttention.apply(x, memory, heads, bias, is_causal, *parameters)


class _ForgetfulAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, memory, heads, bias, is_causal, *parameters):
        q, k, v = _queries_keys_values(x, memory, parameters, heads)
        ctx.is_short = is_short(q, k)
        if ctx.is_short:  # the weights are needed again, otherwise the outputs and log-sums
            attended, weights = attend(q, k, v, bias, is_causal)
            kept = None, weights
        else:
            kept = _ATTEND(q, k, v, 0.0, is_causal, attn_mask=bias)
            attended = kept[0]
        ctx.heads, ctx.is_causal = heads, is_causal
        recomputing.save(ctx, x, memory, bias, *kept, *parameters)
        return side_by_side(attended)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_y):
        x, memory, bias, attended, inner, *parameters = recomputing.saved(ctx)
        q, k, v = _queries_keys_values(x, memory, parameters, ctx.heads)
        grad_y = heads_of(grad_y, ctx.heads)
        if ctx.is_short:
            grads = attend_backward(grad_y, q, k, v, weights=inner)
        else:
            rest = 0.0, ctx.is_causal
            grads = _ATTEND_BACKWARD(grad_y, q, k, v, attended, inner, *rest, attn_mask=bias)
        del q, k, v
        weights, grads = parameters[::2], [side_by_side(grad) for grad in grads]
        if memory is None:
            grad_x, of_parameters = _joint_backward(x, weights, grads)
            return grad_x, None, None, None, None, *of_parameters
        grad_x, of_query = _joint_backward(x, weights[:1], grads[:1])
        grad_memory, of_memory = _joint_backward(memory, weights[1:], grads[1:])
        return grad_x, grad_memory, None, None, None, *of_query, *of_memory


def _sources(x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Of queries, keys and values: (B, T, D) and twice (B, S, D)."""
    return (x, x, x) if memory is None else (x, memory, memory)


def _queries_keys_values(x, memory, parameters, heads) -> list[Tensor]:
    """(B, H, T, K) and twice (B, H, S, K)."""
    projections = zip(_sources(x, memory), parameters[::2], parameters[1::2], strict=True)
    return [heads_of(linear(source, weight, bias), heads) for source, weight, bias in projections]


def _joint_backward(x, weights, grads) -> tuple[Tensor, list[Tensor]]:
    """Gradients of several projections of one input, by joint products.

    Args:
        x: (B, T, D).
        weights: each (H K, D).
        grads: of what each projection gave, (B, T, H K).

    Returns:
        That of `x`; those of each weight and its bias, in turn.
    """
    grad = rows_of(torch.cat(grads, dim=-1))
    grad_x, of_weights, of_biases = product_backward(grad, rows_of(x), torch.cat(weights))
    parts = zip(of_weights.chunk(len(weights)), of_biases.chunk(len(weights)), strict=True)
    return grad_x.view(x.shape), [each for pair in parts for each in pair]


def heads_of(x: Tensor, heads: int) -> Tensor:
    """(B, T, H K) -> (B, H, T, K)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def side_by_side(x: Tensor) -> Tensor:
    """(B, H, T, K) -> (B, T, H K)."""
    return x.transpose(1, 2).flatten(2)
