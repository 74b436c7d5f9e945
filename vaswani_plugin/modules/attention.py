"""Attention (section 3.2): Eq. 1 as a pure function, and multi-head attention over it.

Axes: B batch, H heads, T queries, S keys, D d_model, K d_k, V d_v.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.modules.forgetful_attention import (
    forgetful_attention,
    heads_of,
    is_worth_it,
    side_by_side,
)
from vaswani_plugin.modules.linear import joint_linear, linear
from vaswani_plugin.modules.short_attention import is_short, short_attention

KeyValueCache = dict[str, Tensor]
"""Keys (B, H, S, K) under "key" and values (B, H, S, V) under "value"; empty before use."""


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Eq. 1, written out: softmax(Q K^T / sqrt(d_k)) V.

    The plain twin of `torch.nn.functional.scaled_dot_product_attention`, for reading, for
    tests and wherever the weights themselves are wanted.

    Args:
        query: (..., T, K).
        key: (..., S, K).
        value: (..., S, V).
        mask: boolean, broadcastable to (..., T, S), True where a query may attend.

    Returns:
        The outputs (..., T, V) and the weights (..., T, S). A row of weights sums to 1; a
        query that may attend to nothing gets zeros.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        weights = weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    return weights @ value, weights


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: Concat(head_1, ..., head_h) W^O.

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    The h matrices W_i^Q lie side by side in one projection, and so for keys and values.
    d_k and d_v are free, as Table 3 (A) and (B) need.

    Args:
        d_model: width of queries, keys, values and output.
        heads: h.
        d_k: width of a head's queries and keys.
        d_v: width of a head's values.
        dropout: probability of dropping an attention weight (0 in the paper).

    Raises:
        ValueError: when a size is below 1.
    """

    def __init__(self, d_model: int, heads: int, d_k: int, d_v: int, dropout: float = 0.0) -> None:
        super().__init__()
        for name, size in (("d_model", d_model), ("heads", heads), ("d_k", d_k), ("d_v", d_v)):
            if size < 1:
                raise ValueError(f"{name} is {size}; it must be at least 1")
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(d_model, heads * d_k)
        self.key = nn.Linear(d_model, heads * d_k)
        self.value = nn.Linear(d_model, heads * d_v)
        self.output = nn.Linear(heads * d_v, d_model)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier uniform; Q, K and V as the parts of one matrix (gain 1/sqrt(2))."""
        for projection in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(projection.weight, gain=1 / math.sqrt(2))
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(
        self,
        query: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KeyValueCache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `query` to `memory`, or to itself where there is no memory.

        Args:
            query: (B, T, D).
            memory: (B, S, D), the encoder's output; None for self-attention.
            mask: boolean, broadcastable to (B, H, T, S), True where a query may attend.
            is_causal: self-attention that hides the future, said without a mask so that the
                kernel need not read one. Exclusive with `mask`.
            cache: keys and values of earlier calls. Self-attention appends to it;
                attention to a memory fills it once and then reads it only.
            need_weights: also return the weights of each head (Eq. 1, written out).

        Returns:
            (B, T, D), and the weights (B, H, T, S) or None.
        """
        projections = (self.query, self.key, self.value)
        drops = self.training and self.dropout > 0
        plain = cache is None and not need_weights and not drops
        if plain and is_worth_it(query, memory, projections):
            y = forgetful_attention(query, memory, projections, self.heads, mask, is_causal)
            return linear(y, self.output.weight, self.output.bias), None
        if memory is None:
            q, k, v = self._heads_of(query, self.query, self.key, self.value)
            if cache:
                k, v = torch.cat((cache["key"], k), dim=2), torch.cat((cache["value"], v), dim=2)
            if cache is not None:
                cache["key"], cache["value"] = k, v
        else:
            (q,) = self._heads_of(query, self.query)
            k, v = self._of_memory(memory, cache)
        if need_weights:
            if is_causal:
                future = torch.ones(q.size(2), k.size(2), dtype=torch.bool, device=q.device)
                mask = future.tril()
            heads, weights = scaled_dot_product_attention(q, k, v, mask)
        else:
            heads, weights = self._fast_attention(q, k, v, mask, is_causal), None
        return linear(side_by_side(heads), self.output.weight, self.output.bias), weights

    def _fast_attention(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        if not dropout and is_short(q, k):
            return short_attention(q, k, v, mask, is_causal)
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=is_causal
        )

    def _of_memory(self, memory: Tensor, cache: KeyValueCache | None) -> tuple[Tensor, Tensor]:
        """Keys and values of the memory, from the cache where it is filled."""
        if cache:
            return cache["key"], cache["value"]
        k, v = self._heads_of(memory, self.key, self.value)
        if cache is not None:
            cache["key"], cache["value"] = k, v
        return k, v

    def _heads_of(self, x: Tensor, *projections: nn.Linear) -> tuple[Tensor, ...]:
        """Each projection of (B, T, D), in one product, as heads (B, H, T, .)."""
        return tuple(heads_of(part, self.heads) for part in joint_linear(x, *projections))
