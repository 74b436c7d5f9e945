"""Attention masks (section 3.2.3): who may attend to whom.

A mask is boolean and True where a query may attend to a key, as
`torch.nn.functional.scaled_dot_product_attention` reads it.

Axes: B batch, T queries, S keys.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Window(NamedTuple):
    """Who may attend to whom in restricted self-attention (section 4), without a T x T mask.

    Attributes:
        before, after: position i sees i - before ... i + after.
        visible: boolean (B, 1, 1, T), False at padding; None where there is none.
    """

    before: int
    after: int
    visible: Tensor | None = None

    def mask(self, length: int, device: torch.device | None = None) -> Tensor:
        """Return the same as a mask, broadcastable to (B, 1, T, T).

        Padding sees itself: see `hide_padding`.
        """
        query = torch.arange(length, device=device)[:, None]
        key = torch.arange(length, device=device)[None, :]
        near = (key >= query - self.before) & (key <= query + self.after)
        return near if self.visible is None else near & self.visible | (key == query)


def neighbourhood(window: int, visible: Tensor | None = None) -> Window:
    """Return a window of r positions: position i sees i - r//2 ... i + (r-1)//2."""
    return Window(window // 2, (window - 1) // 2, visible)


def padding_mask(tokens: Tensor, padding_idx: int) -> Tensor:
    """Hide padding from every query.

    Returns:
        Boolean (B, 1, 1, S) of the tokens (B, S), to be broadcast over heads and queries.
    """
    return tokens.ne(padding_idx)[:, None, None, :]


def causal_mask(
    queries: int, keys: int, window: int = 0, device: torch.device | None = None
) -> Tensor:
    """Hide the future: mask out all values "which correspond to illegal connections" (3.2.3).

    The queries are the last `queries` of the `keys` positions. So one function serves training
    (queries = keys) and incremental decoding (one query, all keys so far).

    Args:
        queries, keys: numbers of positions T and S, T <= S.
        window: with r > 0 a query sees only the r latest positions, its own included (the
            restricted self-attention of section 4, without the future); 0: all.
        device: of the mask.

    Returns:
        Boolean (T, S).
    """
    query = torch.arange(keys - queries, keys, device=device)[:, None]
    key = torch.arange(keys, device=device)[None, :]
    visible = key <= query
    if window:
        visible &= key > query - window
    return visible


def hide_padding(visible: Tensor, tokens: Tensor, padding_idx: int) -> Tensor:
    """Hide the padding of tokens (B, S) in a mask `visible` (T, S): boolean (B, 1, T, S).

    Every position still sees itself. Without that, all scores of a query at padding would be minus
    infinity, which gives NaN on some devices. The results at padding are never used.
    """
    itself = causal_mask(*visible.shape, window=1, device=tokens.device)
    return visible & padding_mask(tokens, padding_idx) | itself


def past_mask(
    tokens: Tensor, padding_idx: int, past: int = 0, window: int = 0, right_padded: bool = False
) -> Tensor | Window | None:
    """Hide the future and the padding from the positions after the first `past`.

    Padding after a sentence is in the future of its tokens, so the causal mask hides it already.

    Args:
        tokens: (B, T).
        padding_idx: number of the padding.
        past: number of positions whose keys are cached.
        window: see `causal_mask`.
        right_padded: the caller promises that padding only follows the tokens.

    Returns:
        Boolean, broadcastable to (B, 1, T - past, T); a `Window` where nothing is cached and
        `window` is set; None where `is_causal` alone is enough.
    """
    if not past and window:
        return Window(window - 1, 0, None if right_padded else padding_mask(tokens, padding_idx))
    if right_padded and not past:
        return None
    length = tokens.size(1)
    mask = causal_mask(length - past, length, window, tokens.device)
    return mask if right_padded else hide_padding(mask, tokens, padding_idx)
