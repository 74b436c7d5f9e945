"""Restricted self-attention (section 4; Table 1, fourth row) in blocks: O(r n d), not O(n^2 d).

The queries are cut into blocks of r positions. Together the queries of a block see 2 r - 1 keys, so
each block is one attention of r queries to 2 r - 1 keys under a band-shaped mask.

Axes: B batch, H heads, T positions, K d_k, V d_v, r window, N = T / r blocks, rounded up.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from vaswani_plugin.modules.attention import Window


def restricted_attention(
    q: Tensor, k: Tensor, v: Tensor, window: Window, dropout: float, scale: float | None
) -> Tensor:
    """Compute Eq. 1, where each position sees only its window, and always itself.

    (B, H, T, K), (B, H, T, K), (B, H, T, V) -> (B, H, T, V). `dropout` is the probability of
    dropping a weight, `scale` multiplies the scores.
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
