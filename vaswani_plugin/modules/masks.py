"""Attention masks (section 3.2.3): who may attend to whom.

A mask is boolean and True where a query may attend to a key, as
`torch.nn.functional.scaled_dot_product_attention` reads it.

Axes: B batch, T queries, S keys.
"""

import torch
from torch import Tensor

from vaswani_plugin.modules.restricted import Window


def padding_mask(tokens: Tensor, padding_idx: int) -> Tensor:
    """Hide padding from every query.

    Returns:
        Boolean (B, 1, 1, S) of the tokens (B, S), to be broadcast over heads and queries.
    """
    return tokens.ne(padding_idx)[:, None, None, :]


def causal_mask(
    queries: int, keys: int, window: int = 0, device: torch.device | None = None
) -> Tensor:
    """Hide the future: "masking out all values which correspond to illegal connections".

    The queries are the last `queries` of the `keys` positions, so that one function serves
    training (queries = keys) and incremental decoding (one query, all keys so far).

    Args:
        queries, keys: numbers of positions T and S, T <= S.
        window: with r > 0 a query sees its r latest positions, itself among them (the
            restricted self-attention of section 4, on the side that is visible).
        device: of the mask, (T, S).
    """
    query = torch.arange(keys - queries, keys, device=device)[:, None]
    key = torch.arange(keys, device=device)[None, :]
    visible = key <= query
    if window:
        visible &= key > query - window
    return visible


def hide_padding(visible: Tensor, tokens: Tensor, padding_idx: int) -> Tensor:
    """Boolean (B, 1, T, S): what of `visible` (T, S) is no padding of tokens (B, S), and itself.

    Padding sees itself lest its row of scores be minus infinity throughout, which makes NaN on
    some devices. Nothing reads what it computes.
    """
    itself = causal_mask(*visible.shape, window=1, device=tokens.device)
    return visible & padding_mask(tokens, padding_idx) | itself


def past_mask(
    tokens: Tensor, padding_idx: int, past: int = 0, window: int = 0, right_padded: bool = False
) -> Tensor | Window | None:
    """Hide the future and the padding from the positions behind the first `past`.

    Padding behind the tokens of a sentence lies in their future and needs no mask of its own.

    Args:
        tokens: (B, T).
        padding_idx: number of the padding.
        past: positions whose keys are cached.
        window: see `causal_mask`.
        right_padded: promise that padding stands behind the tokens only.

    Returns:
        Boolean, broadcastable to (B, 1, T - past, T); a `Window` where nothing is cached and each
        position sees its r latest ones; None where `is_causal` says it all.
    """
    if not past and window:
        return Window(window - 1, 0, None if right_padded else padding_mask(tokens, padding_idx))
    if right_padded and not past:
        return None
    length = tokens.size(1)
    mask = causal_mask(length - past, length, window, tokens.device)
    return mask if right_padded else hide_padding(mask, tokens, padding_idx)
