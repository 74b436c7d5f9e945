"""Attention (section 3.2): Eq. 1 as a function, and multi-head attention.

Axes: B batch, H heads, T queries, S keys, D d_model, K d_k, V d_v.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.modules.masks import Window, causal_mask

KeyValueCache = dict[str, Tensor]
"""Keys (B, H, S, K) under "key" and values (B, H, S, V) under "value"; empty before use."""


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Eq. 1, written out: softmax(Q K^T / sqrt(d_k)) V.

    Args:
        query, key, value: (..., T, K), (..., S, K) and (..., S, V).
        mask: boolean, broadcastable to (..., T, S), True where a query may attend.
        scale: multiplies the scores; None is the paper's 1/sqrt(d_k).

    Returns:
        The outputs (..., T, V) and the weights (..., T, S). A row of weights sums to 1; a
        query that may attend to nothing gets zeros.
    """
    if scale is None:
        scale = 1 / math.sqrt(query.size(-1))
    scores = query @ key.transpose(-2, -1) * scale
    weights = masked_softmax(scores, mask)
    return weights @ value, weights


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
    """

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
        cache: KeyValueCache | None = None,
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
        if is_causal and (need_weights or q.size(2) < k.size(2)):
            # PyTorch's `is_causal` takes queries for the first positions; here they are the last.
            mask, is_causal = causal_mask(q.size(2), k.size(2), device=q.device), False
        if need_weights:
            mask = mask.mask(q.size(2), q.device) if isinstance(mask, Window) else mask
            heads, weights = scaled_dot_product_attention(q, k, v, mask, self.scale)
            if self.training and self.dropout:
                heads = F.dropout(weights, self.dropout) @ v
        else:
            heads, weights = self.attend(q, k, v, mask, is_causal), None
        return self.output(merge_heads(heads)), weights

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | Window | None, is_causal: bool
    ) -> Tensor:
        """Eq. 1 by PyTorch's function: (B, H, T, K), (B, H, S, K), (B, H, S, V) -> (B, H, T, V)."""
        dropout = self.dropout if self.training else 0.0
        if isinstance(mask, Window):
            from vaswani_plugin.modules.restricted import restricted_attention  # few models' (4)

            return restricted_attention(q, k, v, mask, dropout, self.scale)
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, scale=self.scale)

    def _keys_and_values(
        self, query: Tensor, memory: Tensor | None, cache: KeyValueCache | None
    ) -> tuple[Tensor, Tensor]:
        """Return keys (B, H, S, K) and values (B, H, S, V), projected now or from the cache."""
        if cache and memory is not None:
            return cache["key"], cache["value"]
        source = query if memory is None else memory
        k, v = (split_heads(project(source), self.heads) for project in (self.key, self.value))
        if cache:
            k, v = torch.cat((cache["key"], k), dim=2), torch.cat((cache["value"], v), dim=2)
        if cache is not None:
            cache["key"], cache["value"] = k, v
        return k, v


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Split the heads: (B, T, H K) -> (B, H, T, K)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, V) -> (B, T, H V): the paper's Concat."""
    return x.transpose(1, 2).flatten(2)
