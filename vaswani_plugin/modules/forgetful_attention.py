"""Multi-head attention that makes queries, keys and values again in the backward pass.

Kept, they are a fourth of what training the paper's base model keeps. Made again they are one more
product, of the three that their weights cost anyway.

Axes: B batch, H heads, T queries, S keys, D d_model, K width of a head, R rows (B and T together).
"""

import math

import torch
from torch import Tensor, nn

from vaswani_plugin.modules import recomputing
from vaswani_plugin.modules.linear import has_own_kernels, product

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
    rows = x[..., 0].numel(), (x if memory is None else memory)[..., 0].numel()
    query, key, value = (projection.out_features for projection in projections)
    return (
        torch.is_grad_enabled()
        and rows[0] * query + rows[1] * (key + value) >= recomputing.WORTH_A_PRODUCT
        and query == key == value
        and _ATTEND is not None
        and has_own_kernels(x)
        and torch.backends.cuda.flash_sdp_enabled()
    )


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
    if mask is not None:
        mask = torch.zeros_like(mask, dtype=x.dtype).masked_fill_(~mask, -math.inf)
    parameters = [each for one in projections for each in (one.weight, one.bias)]
    return _ForgetfulAttention.apply(x, memory, heads, mask, is_causal, *parameters)


class _ForgetfulAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, memory, heads, mask, is_causal, *parameters):
        q, k, v = _queries_keys_values(x, memory, parameters, heads)
        attended, log_sums = _ATTEND(q, k, v, 0.0, is_causal, attn_mask=mask)
        ctx.heads, ctx.is_causal = heads, is_causal
        recomputing.save(ctx, x, memory, mask, attended, log_sums, *parameters)
        return _side_by_side(attended)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_y):
        x, memory, mask, attended, log_sums, *parameters = recomputing.saved(ctx)
        q, k, v = _queries_keys_values(x, memory, parameters, ctx.heads)
        grads = _ATTEND_BACKWARD(
            _heads_of(grad_y, ctx.heads),
            *(q, k, v, attended, log_sums, 0.0, ctx.is_causal),
            attn_mask=mask,
        )
        del q, k, v
        weights, grads = parameters[::2], [_side_by_side(grad) for grad in grads]
        if memory is None:
            grad_x, of_parameters = _joint_backward(x, weights, grads)
            return grad_x, None, None, None, None, *of_parameters
        grad_x, of_query = _joint_backward(x, weights[:1], grads[:1])
        grad_memory, of_memory = _joint_backward(memory, weights[1:], grads[1:])
        return grad_x, grad_memory, None, None, None, *of_query, *of_memory


def _queries_keys_values(x, memory, parameters, heads) -> list[Tensor]:
    """Three (B, H, T or S, K)."""
    weights, biases = parameters[::2], parameters[1::2]
    if memory is None:
        parts = _joint(x, weights, biases)
    else:
        parts = _joint(x, weights[:1], biases[:1]) + _joint(memory, weights[1:], biases[1:])
    return [_heads_of(part, heads) for part in parts]


def _heads_of(x: Tensor, heads: int) -> Tensor:
    """(B, T, H K) -> (B, H, T, K)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _side_by_side(x: Tensor) -> Tensor:
    """(B, H, T, K) -> (B, T, H K)."""
    return x.transpose(1, 2).flatten(2)


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.size(-1))


def _joint(x, weights, biases) -> tuple[Tensor, ...]:
    """Several projections of one input as one product."""
    y = product(_rows(x), torch.cat(weights), torch.cat(biases))
    return y.view(*x.shape[:-1], -1).chunk(len(weights), dim=-1)


def _joint_backward(x, weights, grads) -> tuple[Tensor, list[Tensor]]:
    """The gradient of `x`; those of each weight and its bias, in turn."""
    grad = _rows(torch.cat(grads, dim=-1))
    grad_x = product(grad, torch.cat(weights).t()).view(x.shape)
    of_weights = product(grad.t(), _rows(x).t()).chunk(len(weights))
    of_biases = grad.sum(dim=0).chunk(len(weights))
    return grad_x, [each for pair in zip(of_weights, of_biases, strict=True) for each in pair]
