"""Eq. 1 by PyTorch's own function, which never stores the weights.

Replaces `modules.attention.scaled_dot_product_attention`, on any device, where nobody asks for the
weights. Its gain is memory, and time where sequences are long. Under autocast on a CPU and over few
keys, the plain function stays: on 25 positions PyTorch's takes 5 times as long, in float32 1.4
times (Intel with AMX; base trains 1.2 times as fast).
cuDNN's function, which PyTorch may choose on a GPU, plans each shape that it hasn't seen for about
10 ms, and nearly every batch of sentences has a new one: PyTorch's other functions do these calls.
Restricted self-attention (section 4; Table 1, fourth row) is computed in blocks of r queries:
O(r n d), not O(n^2 d).

Axes: B batch, H heads, T queries, S keys, K d_k, V d_v, r window, N = T / r blocks, rounded up.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from vaswani_plugin.kernels.proof import is_proven, with_gradients
from vaswani_plugin.modules.attention import (
    MultiHeadAttention,
    Window,
    causal_mask,
    scaled_dot_product_attention,
)
from vaswani_plugin.processor import runs_on_host

WITHOUT_CUDNN = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
FEW_KEYS = 256
"""With more, the stored weights of Eq. 1 would cost more memory than time."""


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
        is_few = key.size(-2) <= FEW_KEYS and runs_on_host(key.device)
        if is_few and torch.is_autocast_enabled("cpu"):
            options: Any = scale, is_causal, dropout
            return scaled_dot_product_attention(query, key, value, mask, *options)[0], None
        if is_causal and query.size(-2) < key.size(-2):
            # PyTorch's `is_causal` takes queries for the first positions; here they are the last.
            mask = causal_mask(query.size(-2), key.size(-2), device=query.device)
        arguments = query, key, value, mask, dropout, is_causal and mask is None
        return F.scaled_dot_product_attention(*arguments, scale=scale), None


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
