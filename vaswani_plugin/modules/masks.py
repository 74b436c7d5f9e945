"""Attention masks (section 3.2.3): who may look at whom.

A mask is boolean and True where a query may attend to a key, as
`torch.nn.functional.scaled_dot_product_attention` reads it.

Axes: B batch, T queries, S keys.
"""

import torch
from torch import Tensor


def padding_mask(tokens: Tensor, padding_idx: int) -> Tensor:
    """Hide padding from every query.

    Args:
        tokens: token numbers, (B, S).
        padding_idx: the number of the padding token.

    Returns:
        Boolean (B, 1, 1, S), True at real tokens; broadcasts over heads and queries.
    """
    return tokens.ne(padding_idx)[:, None, None, :]


def causal_mask(
    queries: int, keys: int, window: int = 0, device: torch.device | None = None
) -> Tensor:
    """Hide the future: "masking out all values which correspond to illegal connections".

    The queries are the last `queries` of the `keys` positions, so that one function serves
    training (queries = keys) and incremental decoding (one query, all keys so far).

    Args:
        queries: number of query positions T.
        keys: number of key positions S, at least T.
        window: with r > 0 a query sees its r latest positions, itself among them (the
            restricted self-attention of section 4, on the side that is visible).
        device: where the mask is made.

    Returns:
        Boolean (T, S).
    """
    query = torch.arange(keys - queries, keys, device=device)[:, None]
    key = torch.arange(keys, device=device)[None, :]
    visible = key <= query
    if window:
        visible &= key > query - window
    return visible


def neighbourhood_mask(length: int, window: int, device: torch.device | None = None) -> Tensor:
    """Restrict self-attention to r positions around each position (section 4).

    Args:
        length: number of positions T.
        window: r, the size of the neighbourhood; position i sees i - r//2 ... i + (r-1)//2.
        device: where the mask is made.

    Returns:
        Boolean (T, T).
    """
    query = torch.arange(length, device=device)[:, None]
    key = torch.arange(length, device=device)[None, :]
    return (key >= query - window // 2) & (key <= query + (window - 1) // 2)
