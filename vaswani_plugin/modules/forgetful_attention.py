"""Multi-head attention that makes queries, keys and values again in the backward pass.

Kept, they are 0.4 of the 1.4 GB that training the paper's base model keeps of 4,000 tokens. Made
again they are one more product, of the three that their weights cost anyway.

Axes: B batch, H heads, T queries, S keys, D d_model, K width of a head.
"""

import torch
from torch import Tensor, nn

from vaswani_plugin.modules import recomputing
from vaswani_plugin.modules.linear import SumOfGradients, has_own_kernels, linear, rows_of
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
        attended = x.new_empty(*x.shape[:2], parameters[-1].size(0))
        ctx.pieces, inner = _pieces(x, memory, parameters), []
        for piece in ctx.pieces:
            q, k, v = _queries_keys_values(piece, x, memory, parameters, heads)
            ctx.is_short = is_short(q, k)
            compute = attend if ctx.is_short else _attend_by_kernel
            of_piece, kept = compute(q, k, v, _of_sentences(bias, piece), is_causal)
            attended[piece] = side_by_side(of_piece)
            inner.append(kept)
        ctx.heads, ctx.is_causal = heads, is_causal
        recomputing.save(
            ctx, x, memory, bias, None if ctx.is_short else attended, *inner, *parameters
        )
        return attended

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_y):
        x, memory, bias, attended, *rest = recomputing.saved(ctx)
        inner, parameters = rest[: len(ctx.pieces)], rest[len(ctx.pieces) :]
        sums = [_JointGradients(x, parameters[::2])]
        if memory is not None:
            sums = [_JointGradients(x, parameters[:1]), _JointGradients(memory, parameters[2::2])]
        for piece, kept in zip(ctx.pieces, inner, strict=True):
            q, k, v = _queries_keys_values(piece, x, memory, parameters, ctx.heads)
            grad = heads_of(grad_y[piece], ctx.heads)
            if ctx.is_short:
                grads = attend_backward(grad, q, k, v, weights=kept)
            else:
                of_piece, rest = heads_of(attended[piece], ctx.heads), (0.0, ctx.is_causal)
                mask = _of_sentences(bias, piece)
                grads = _ATTEND_BACKWARD(grad, q, k, v, of_piece, kept, *rest, attn_mask=mask)
            del q, k, v
            for each in sums:
                each.add(piece, grads[: each.count])
                grads = grads[each.count :]
        grad_memory = None if memory is None else sums[1].grad_x
        of_parameters = [grad for each in sums for grad in each.of_parameters()]
        return sums[0].grad_x, grad_memory, None, None, None, *of_parameters


def _sources(x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Of queries, keys and values: (B, T, D) and twice (B, S, D)."""
    return (x, x, x) if memory is None else (x, memory, memory)


def _pieces(x: Tensor, memory: Tensor | None, parameters: tuple[Tensor, ...]) -> list[slice]:
    """Sentences whose queries, keys and values are made at a time."""
    sources = zip(_sources(x, memory), parameters[::2], strict=True)
    return recomputing.pieces(len(x), sum(one.size(1) * len(weight) for one, weight in sources))


def _of_sentences(bias: Tensor | None, piece: slice) -> Tensor | None:
    """What is added to the scores of some of the sentences."""
    return bias[piece] if bias is not None and bias.dim() == 4 and len(bias) > 1 else bias


def _queries_keys_values(piece, x, memory, parameters, heads) -> list[Tensor]:
    """Of some of the sentences: (B, H, T, K) and twice (B, H, S, K)."""
    sources = _sources(x[piece], memory if memory is None else memory[piece])
    projections = zip(sources, parameters[::2], parameters[1::2], strict=True)
    return [heads_of(linear(source, weight, bias), heads) for source, weight, bias in projections]


def _attend_by_kernel(q, k, v, bias, is_causal) -> tuple[Tensor, Tensor]:
    """(B, H, T, K), and the logarithms of the softmax's sums, (B, H, T)."""
    return _ATTEND(q, k, v, 0.0, is_causal, attn_mask=bias)


class _JointGradients:
    """Gradients of several projections of one input, by joint products, piece by piece.

    Args:
        x: (B, T, D).
        weights: each (H K, D).
    """

    def __init__(self, x: Tensor, weights: tuple[Tensor, ...]) -> None:
        self.x, self.grad_x, self.count = x, x.new_empty(x.shape), len(weights)
        self.sum = SumOfGradients(torch.cat(weights))

    def add(self, piece: slice, grads: tuple[Tensor, ...]) -> None:
        """Those of what each projection gave for some of the sentences, (B, H, T, K)."""
        grad = rows_of(torch.cat([side_by_side(each) for each in grads], dim=-1))
        self.sum.add(grad, rows_of(self.x[piece]), rows_of(self.grad_x[piece]))

    def of_parameters(self) -> list[Tensor]:
        """Those of each weight and its bias, in turn."""
        parts = zip(*(grad.chunk(self.count) for grad in self.sum.of_parameters()), strict=True)
        return [each for pair in parts for each in pair]


def heads_of(x: Tensor, heads: int) -> Tensor:
    """(B, T, H K) -> (B, H, T, K)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def side_by_side(x: Tensor) -> Tensor:
    """(B, H, T, K) -> (B, T, H K)."""
    return x.transpose(1, 2).flatten(2)
