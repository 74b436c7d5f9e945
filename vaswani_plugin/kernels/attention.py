"""Eq. 1 by PyTorch's own function, which never stores the weights.

Replaces `modules.attention.scaled_dot_product_attention`, on any device, where nobody asks for the
weights. Its gain is memory, and time where sequences are long. Over few keys a CPU is faster with
batched products in one node: PyTorch's function takes twice as long, in bfloat16 6 to 15 times.
cuDNN's function, which PyTorch may choose on a GPU, plans each shape that it hasn't seen for about
10 ms, and nearly every batch of sentences has a new one: PyTorch's other functions do these calls.
Restricted self-attention (section 4; Table 1, fourth row) takes blocks of r queries: O(r n d).

Axes: B batch, H heads, T queries, S keys, K d_k, V d_v, r window, N = T / r blocks, rounded up.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from vaswani_plugin.kernels.proof import can_run_on, is_proven, with_gradients
from vaswani_plugin.modules.attention import MultiHeadAttention, Window, causal_mask

WITHOUT_CUDNN = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
FEW_KEYS = 64
"""With more, the stored weights of Eq. 1 cost time and memory; in bfloat16 with four times more."""


def restricted_attention(
    q: Tensor, k: Tensor, v: Tensor, window: Window, dropout: float, scale: float | None
) -> Tensor:
    """Compute Eq. 1, where each position sees only its window, and always itself.

    Together the queries of a block see 2 r - 1 keys, so each block is one attention of r queries to
    2 r - 1 keys under a band-shaped mask. (B, H, T, K) twice, (B, H, T, V) -> (B, H, T, V).
    """
    length = q.size(2)
    window = Window(min(window.before, length - 1), min(window.after, length - 1), window.visible)
    r = window.before + window.after + 1
    blocks = -(-length // r)
    rest = blocks * r - length
    queries = F.pad(q, (0, 0, 0, rest)).unflatten(2, (blocks, r)).transpose(1, 2)  # (B, N, H, r, K)
    attended = F.scaled_dot_product_attention(
        queries.flatten(0, 1),
        _keys_of_blocks(k, window, rest),
        _keys_of_blocks(v, window, rest),
        _mask_of_blocks(q, window, rest),
        dropout,
        scale=scale,
    )  # (B N, H, r, V)
    attended = attended.unflatten(0, (-1, blocks)).transpose(1, 2).flatten(2, 3)
    return attended[:, :, :length]


def _keys_of_blocks(x: Tensor, window: Window, rest: int) -> Tensor:
    """Gather the keys or values that each block sees: (B, H, T, K) -> (B N, H, 2 r - 1, K)."""
    r = window.before + window.after + 1
    padded = F.pad(x, (0, 0, window.before, rest + window.after))
    seen = padded.unfold(2, 2 * r - 1, r)  # (B, H, N, K, 2 r - 1)
    return seen.permute(0, 2, 1, 4, 3).flatten(0, 1)


def _mask_of_blocks(q: Tensor, window: Window, rest: int) -> Tensor:
    """Boolean (B N, 1, r, 2 r - 1): True for itself, and for real tokens inside the window."""
    batch, _, length, _ = q.shape
    r = window.before + window.after + 1
    query = torch.arange(r, device=q.device)[:, None]
    key = torch.arange(2 * r - 1, device=q.device)[None, :]
    band = (key >= query) & (key < query + r)  # (r, 2 r - 1)
    visible = window.visible
    if visible is None:
        visible = torch.ones(1, 1, 1, length, dtype=torch.bool, device=q.device)
    visible = F.pad(visible.expand(batch, 1, 1, length), (window.before, rest + window.after))
    seen = visible.unfold(3, 2 * r - 1, r)  # (B, 1, 1, N, 2 r - 1)
    itself = key == query + window.before
    return seen.flatten(0, 3)[:, None, None] & band | itself  # (B N, 1, r, 2 r - 1)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Window | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    dropout: float = 0.0,
) -> tuple[Tensor, None]:
    """Compute Eq. 1: (B, H, T, V), and no weights; see the plain function for the arguments."""
    with sdpa_kernel(WITHOUT_CUDNN) if query.is_cuda else nullcontext():
        if isinstance(mask, Window):
            return restricted_attention(query, key, value, mask, dropout, scale), None
        inputs, (queries, keys) = (query, key, value), (query.size(-2), key.size(-2))
        is_few = keys <= (FEW_KEYS if query.element_size() > 2 else 4 * FEW_KEYS) and not dropout
        is_few = is_few and can_run_on(*inputs, under_autocast=True)
        if is_causal and (is_few or queries < keys):
            # PyTorch's `is_causal` takes queries for the first positions; here they are the last.
            mask = causal_mask(queries, keys, device=query.device)
        if is_few:
            return _FewKeys.apply(*inputs, mask, scale or 1 / math.sqrt(query.size(-1))), None
        arguments = *inputs, mask, dropout, is_causal and mask is None
        return F.scaled_dot_product_attention(*arguments, scale=scale), None


class _FewKeys(torch.autograd.Function):
    """Weights are (B H, S, T): PyTorch's softmax over short rows, in place of columns, is slow."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.bfloat16)  # under autocast
    def forward(ctx, query, key, value, mask, scale):
        ctx.heads, ctx.scale = query.shape[:2], scale
        q, k, v = (x.flatten(0, 1) for x in (query, key, value))  # (B H, T, K), (B H, S, K or V)
        scores = torch.bmm(k, q.transpose(1, 2))
        weights = scores.to(torch.promote_types(scores.dtype, torch.float32)).mul_(scale)
        by_head = weights.unflatten(0, ctx.heads).transpose(2, 3)  # (B, H, T, S)
        if mask is not None:
            by_head.masked_fill_(~mask, -math.inf)
        torch.softmax(weights, 1, out=weights)
        if mask is not None and not (seeing := mask.any(-1, keepdim=True)).all():
            by_head.masked_fill_(~seeing, 0)
        ctx.save_for_backward(q, k, v, weights)
        return torch.bmm(weights.to(v.dtype).transpose(1, 2), v).unflatten(0, ctx.heads)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        q, k, v, weights = ctx.saved_tensors
        grad, dtype = grad.flatten(0, 1), weights.dtype
        of_weights = torch.bmm(v, grad.transpose(1, 2)).to(dtype)
        of_scores = torch.ops.aten._softmax_backward_data(of_weights, weights, 1, dtype)
        of_scores = of_scores.mul_(ctx.scale).to(q.dtype)
        of_query, of_key = torch.bmm(of_scores.transpose(1, 2), k), torch.bmm(of_scores, q)
        of_value = torch.bmm(weights.to(v.dtype), grad)
        return *(x.unflatten(0, ctx.heads) for x in (of_query, of_key, of_value)), None, None


def applies_to(attention: MultiHeadAttention) -> bool:
    """Return whether `fused_attention` computes what the attention's `attend` does."""
    plain = type(attention).attend
    return is_proven("Eq. 1", plain, "attention.py", lambda: (plain, fused_attention), _trial)


def _trial(attend: Callable[..., tuple[Tensor, Tensor | None]]) -> list[Tensor | None]:
    """Masks of all kinds, and dropout of the same weights; value and gradients, in float64."""
    options: Any = {"dtype": torch.float64, "device": "cpu"}
    q, k, v = (3 * torch.randn(2, 2, 5, width, **options) for width in (8, 8, 6))
    visible = torch.arange(5, device="cpu") < torch.tensor([[[[5]]], [[[3]]]], device="cpu")
    masks = (None, False), (visible, False), (None, True), (Window(1, 1, visible), False)
    cases: list[Any] = [(q, mask, None, causal, 0.0) for mask, causal in masks]
    cases += [(q, visible, 0.3, False, 0.4), (q, None, 1.0, True, 0.4)]
    cases += [(q[:, :, 3:], None, None, True, 0.0)]
    results: list[Tensor | None] = []
    for queries, *settings in cases:
        inputs = [x.detach().requires_grad_() for x in (queries, k, v)]
        results += with_gradients(lambda *x, s=settings: attend(*x, *s)[0], inputs, [])
    return results
