"""Attention (section 3.2): masks, Eq. 1 as a function, and multi-head attention.

A mask is boolean and True where a query may attend to a key, as
`torch.nn.functional.scaled_dot_product_attention` reads it.

Axes: B batch, H heads, T queries, S keys, D d_model, K d_k, V d_v.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class KeysAndValues:
    """The keys (B, H, S, K) and values (B, H, S, V) that one attention has projected, or None."""

    def __init__(self, key: Tensor | None = None, value: Tensor | None = None) -> None:
        self.key, self.value = key, value

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values of new positions; return those of all."""
        if self.key is not None and self.value is not None:
            key, value = torch.cat((self.key, key), dim=2), torch.cat((self.value, value), dim=2)
        self.key, self.value = key, value
        return key, value

    def select(self, rows: Tensor) -> None:
        """Take the sequences of these numbers, (B',), in place of all; one may occur repeatedly."""
        if self.key is not None and self.value is not None:
            self.key, self.value = (x.index_select(0, rows) for x in (self.key, self.value))


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
    queries, keys = visible.shape
    itself = causal_mask(queries, keys, window=1, device=tokens.device)
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


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Window | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Eq. 1, written out: softmax(Q K^T / sqrt(d_k)) V.

    Args:
        query, key, value: (..., T, K), (..., S, K) and (..., S, V).
        mask: boolean, broadcastable to (..., T, S), True where a query may attend; or a window.
        scale: multiplies the scores; None is the paper's 1/sqrt(d_k).
        is_causal: hide the future. Exclusive with `mask`.
        dropout: probability of dropping a weight (0 in the paper).

    Returns:
        The outputs (..., T, V) and the weights (..., T, S), before dropout. A row of weights sums
        to 1; a query that may attend to nothing gets zeros.
    """
    if is_causal:
        mask = causal_mask(query.size(-2), key.size(-2), device=query.device)
    elif isinstance(mask, Window):
        mask = mask.mask(query.size(-2), query.device)
    if scale is None:
        scale = 1 / math.sqrt(query.size(-1))
    scores = query @ key.transpose(-2, -1) * scale
    weights = masked_softmax(scores, mask)
    return F.dropout(weights, dropout) @ value, weights


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the keys that the mask allows, (..., T, S) -> (..., T, S).

    See `scaled_dot_product_attention` for mask and result.
    """
    if mask is None:
        return scores.softmax(dim=-1)
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
    return weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: Concat(head_1, ..., head_h) W^O.

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    One projection holds the h matrices W_i^Q, concatenated; likewise for keys and values.
    d_k and d_v can be chosen freely: row (B) of Table 3 has d_k other than d_model / h. The biases
    of the four projections are not in the equations; the counts that the paper prints need them.

    Args:
        d_model: width of queries, keys, values and output.
        heads: h.
        d_k, d_v: width of a head's queries and keys, and of its values.
        dropout: probability of dropping an attention weight (0 in the paper).
        scaled: divide the scores by sqrt(d_k), as Eq. 1 does; False is plain dot-product attention.

    Attributes:
        attend: computes Eq. 1 where nobody asks for the weights.
    """

    attend: Callable[..., tuple[Tensor, Tensor | None]]
    # By its name, so that a function put in its place is taken.
    attend = staticmethod(lambda *inputs: scaled_dot_product_attention(*inputs))

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_k: int,
        d_v: int,
        dropout: float = 0.0,
        scaled: bool = True,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.scale = 1 / math.sqrt(d_k) if scaled else 1.0
        self.query = nn.Linear(d_model, heads * d_k)
        self.key = nn.Linear(d_model, heads * d_k)
        self.value = nn.Linear(d_model, heads * d_v)
        self.output = nn.Linear(heads * d_v, d_model)
        # Xavier uniform; Q, K and V as the parts of one matrix (gain 1/sqrt(2)).
        for projection in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(projection.weight, gain=1 / math.sqrt(2))
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(
        self,
        query: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | Window | None = None,
        is_causal: bool = False,
        cache: KeysAndValues | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `query` to `memory`, or from `query` to itself where there is no memory.

        Args:
            query: (B, T, D).
            memory: encoder output, (B, S, D); None: self-attention.
            mask: boolean, broadcastable to (B, H, T, S), True: the query may attend; or a window.
            is_causal: hide the future (self-attention). Exclusive with `mask`.
            cache: of keys and values. Self-attention appends to it; cross-attention fills it once.
            need_weights: also return the weights of each head, before dropout.

        Returns:
            (B, T, D), and the weights (B, H, T, S) or None.
        """
        q = split_heads(self.query(query), self.heads)
        k, v = self._keys_and_values(query, memory, cache)
        attend = scaled_dot_product_attention if need_weights else self.attend
        dropout = self.dropout if self.training else 0.0
        heads, weights = attend(q, k, v, mask, self.scale, is_causal, dropout)
        return self.output(merge_heads(heads)), weights if need_weights else None

    def _keys_and_values(
        self, query: Tensor, memory: Tensor | None, cache: KeysAndValues | None
    ) -> tuple[Tensor, Tensor]:
        """Return keys (B, H, S, K) and values (B, H, S, V), projected now or from the cache."""
        if memory is not None and cache is not None:
            if cache.key is not None and cache.value is not None:
                return cache.key, cache.value
        source = query if memory is None else memory
        k, v = (split_heads(project(source), self.heads) for project in (self.key, self.value))
        return (k, v) if cache is None else cache.extend(k, v)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Split the heads: (B, T, H K) -> (B, H, T, K)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, V) -> (B, T, H V): the paper's Concat."""
    return x.transpose(1, 2).flatten(2)
