"""The decoder's attention to the source, one position at a time.

The source is projected once; all beams then attend to it at every step.

For a batch the keys and values are cached. For a single sentence, the number of function calls
costs more than the matrix products. So its keys are multiplied into the query's projection and its
values into the output's projection: the sub-layer becomes two products with a softmax between them.

Axes: B sentences, W beams, R = B W rows, H heads, S source length, D d_model, K d_k, V d_v.
"""

import math

import torch
from torch import Tensor

from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.search.packed_linear import PackedLinear, packed_by_head
from vaswani_plugin.search.rows import all_rows


class PackedCrossAttention:
    """Cross-attention with packed weights."""

    def __init__(self, attention: MultiHeadAttention) -> None:
        query, key, value = attention.query, attention.key, attention.value
        self.heads = attention.heads
        self.d_k = query.out_features // self.heads
        # Eq. 1's 1/sqrt(d_k) is moved into the projection of the queries.
        self.query_weight, self.query_bias = (
            x.detach() * attention.scale for x in (query.weight, query.bias)
        )
        self.output_weight, self.output_bias = (
            x.detach() for x in (attention.output.weight, attention.output.bias)
        )
        self.query = PackedLinear(self.query_weight, self.query_bias)
        self.key_value = packed_by_head(self.heads, (key, 1), (value, 1))
        self.output = PackedLinear(self.output_weight, self.output_bias)

    def read(self, encoded: Tensor, padding: Tensor | None) -> "SourceMemory | FoldedMemory":
        """Project the sources once, for all beams and steps.

        Args:
            encoded: encoder output, (B, S, D).
            padding: (B, S), True at padding; None where there is none.
        """
        sentences, length, d_model = encoded.shape
        both = self.key_value(encoded.flatten(0, 1)).view(sentences, length, self.heads, -1)
        both = both.transpose(1, 2).flatten(0, 1)  # (B H, S, K + V)
        if sentences == 1 and padding is None and self.heads * length <= 2 * d_model:
            return FoldedMemory(self, both)
        return SourceMemory(self, both, padding)


class SourceMemory:
    """Keys and values of a batch of sources.

    Args:
        weights: of the attention.
        keys_values: (B H, S, K + V).
        padding: (B, S), True at padding; None where there is none.
    """

    def __init__(
        self, weights: PackedCrossAttention, keys_values: Tensor, padding: Tensor | None
    ) -> None:
        self.weights = weights
        self.keys_values = keys_values
        self.bias = None
        if padding is not None:
            hidden = keys_values.new_zeros(padding.shape).masked_fill_(padding, -math.inf)
            self.bias = hidden.repeat_interleave(weights.heads, 0)[:, None]  # (B H, 1, S)

    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the sub-layer without its LayerNorm.

        Args:
            x: (R, D).

        Returns:
            x + attention (R, D), and the weights (B, H, W, S).
        """
        heads, d_k = self.weights.heads, self.weights.d_k
        sentences = self.keys_values.size(0) // heads
        query = self.weights.query(x).view(sentences, -1, heads, d_k).transpose(1, 2)
        query = query.flatten(0, 1)  # (B H, W, K)
        keys = self.keys_values[..., :d_k].transpose(1, 2)
        if self.bias is None:
            scores = torch.bmm(query, keys)
        else:
            scores = torch.baddbmm(self.bias, query, keys)
        weights = scores.softmax(-1)
        attended = torch.bmm(weights, self.keys_values[..., d_k:]).unflatten(0, (sentences, heads))
        attended = attended.transpose(1, 2).reshape(x.size(0), -1)  # (R, H V)
        return self.weights.output(attended).add_(x), weights.unflatten(0, (sentences, heads))

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences only: (B',), their numbers in the batch."""
        rows = all_rows(sentences, self.weights.heads)
        self.keys_values = self.keys_values.index_select(0, rows)
        if self.bias is not None:
            self.bias = self.bias.index_select(0, rows)


class FoldedMemory:
    """One source, multiplied into the projections: scores = x (W_q K^T), output = weights (V W_o).

    Args:
        weights: of the attention.
        keys_values: (H, S, K + V).
    """

    def __init__(self, weights: PackedCrossAttention, keys_values: Tensor) -> None:
        heads, d_k = weights.heads, weights.d_k
        keys, values = keys_values[..., :d_k], keys_values[..., d_k:]
        query = weights.query_weight.view(heads, d_k, -1)
        self.shape = heads, keys.size(1)
        self.keys = torch.bmm(keys, query).flatten(0, 1).T  # (D, H S)
        self.bias = torch.bmm(keys, weights.query_bias.view(heads, d_k, 1)).flatten()  # (H S,)
        output = weights.output_weight.T.reshape(heads, values.size(2), -1)  # (H, V, D)
        # A head's weights sum to 1, so each head adds its part of the bias.
        share = weights.output_bias / heads
        self.values = torch.baddbmm(share, values, output).flatten(0, 1)  # (H S, D)

    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See `SourceMemory.attend`; B is 1."""
        weights = torch.addmm(self.bias, x, self.keys).view(-1, *self.shape).softmax(-1)
        return torch.addmm(x, weights.flatten(1), self.values), weights.transpose(0, 1)[None]

    def keep(self, sentences: Tensor) -> None:
        """See `SourceMemory.keep`: a single sentence always stays."""
        assert len(sentences) == 1
