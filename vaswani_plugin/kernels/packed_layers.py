"""The sub-layers of a decoder with constant weights, one position at a time.

PyTorch includes oneDNN, which reads weights in its own layout up to three times as fast where there
are few rows, as in the translation of one sentence at a time. The source is projected once; all
beams then attend to it at every step.

Axes: B texts, W beams, R = B W rows, H heads, N slots, S source length, D d_model, K d_k, V d_v;
of `PackedLinear` D inputs, V outputs.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.kernels.matrix_library import (
    LEAST_ROWS,
    chosen_library,
    has_onednn,
    onednn_product,
)
from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.layers import FeedForward
from vaswani_plugin.processor import runs_on_host

WORTH_PACKING = 2**18
"""Entries of the smallest matrix for which packing pays; with fewer, the call costs more."""


def _is_for_onednn(weight: Tensor) -> bool:
    return runs_on_host(weight.device) and weight.dtype == torch.float32 and has_onednn()


class PackedLinear:
    """Computes x W^T + b, or max(0, x W^T + b), without gradients.

    W must not change afterwards, since it may be copied or not.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> None:
        self.weight = weight.detach()
        self.bias = bias if bias is None else bias.detach()
        self.relu = relu
        self.onednn = _is_for_onednn(weight)
        self.packed = self.onednn and weight.numel() >= WORTH_PACKING
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight.contiguous())

    def __call__(self, x: Tensor) -> Tensor:
        """(R, D) -> (R, V), in a new tensor."""
        many = x.size(0) >= LEAST_ROWS and chosen_library() == "onednn"
        if self.packed or (self.onednn and many):
            then = "relu" if self.relu else "none"
            return onednn_product(x, self.weight, self.bias, then)
        y = F.linear(x, self.weight, self.bias)
        return y.relu_() if self.relu else y


def packed_by_head(heads: int, *parts: tuple[nn.Linear, float]) -> PackedLinear:
    """Join projections of one input, each with a factor; the outputs of a head are contiguous."""

    def joined(name: str) -> Tensor:
        own = [f * getattr(linear, name).unflatten(0, (heads, -1)) for linear, f in parts]
        return torch.cat(own, dim=1).flatten(0, 1)

    return PackedLinear(joined("weight"), joined("bias"))


def packed_norm(norm: nn.LayerNorm) -> Callable[[Tensor], Tensor]:
    """The end of a sub-layer, LayerNorm(x + sublayer), of the sum (R, D)."""
    arguments = norm.normalized_shape, norm.weight.detach(), norm.bias.detach(), norm.eps
    return lambda x: torch.layer_norm(x, *arguments)


class PackedSelfAttention:
    """LayerNorm(x + SelfAttention(x)) over the slots of `BeamPast`."""

    def __init__(self, attention: MultiHeadAttention, norm: nn.LayerNorm) -> None:
        self.heads = attention.heads
        self.d_k = attention.query.out_features // self.heads
        self.query_key_value = packed_by_head(
            self.heads,
            (attention.query, attention.scale),  # Eq. 1's 1/sqrt(d_k)
            (attention.key, 1),
            (attention.value, 1),
        )
        self.output = PackedLinear(attention.output.weight, attention.output.bias)
        self.norm = packed_norm(norm)
        both = attention.key.out_features + attention.value.out_features
        self.width = both // self.heads  # K + V

    def __call__(self, x: Tensor, cache: Tensor, bias: Tensor) -> Tensor:
        """Write the new keys and values into the last W of the slots in use, then attend.

        `cache` (B, H, room, K + V) has the layer's slots, of which the first N are in use; `bias`
        (B H, W, N) is 0 at slots that a beam sees, -inf at others. x: (R, D) -> (R, D).
        """
        texts, beams, used = cache.size(0), bias.size(1), bias.size(2)
        projected = self.query_key_value(x).view(texts, beams, self.heads, -1)
        projected = projected.transpose(1, 2)  # (B, H, W, K + K + V)
        cache[:, :, used - beams : used] = projected[..., self.d_k :]
        past = cache.flatten(0, 1)[:, :used]  # (B H, N, K + V)
        query = projected[..., : self.d_k].flatten(0, 1)
        weights = torch.baddbmm(bias, query, past[..., : self.d_k].transpose(1, 2)).softmax(-1)
        attended = torch.bmm(weights, past[..., self.d_k :]).view(texts, self.heads, beams, -1)
        attended = attended.transpose(1, 2).reshape(texts * beams, -1)
        return self.norm(self.output(attended).add_(x))


class PackedFeedForward:
    """LayerNorm(x + FFN(x)), Eq. 2."""

    def __init__(self, network: FeedForward, norm: nn.LayerNorm) -> None:
        self.w_1 = PackedLinear(network.w_1.weight, network.w_1.bias, relu=True)
        self.w_2 = PackedLinear(network.w_2.weight, network.w_2.bias)
        self.norm = packed_norm(norm)

    def __call__(self, x: Tensor) -> Tensor:
        """(R, D) -> (R, D)."""
        return self.norm(self.w_2(self.w_1(x)).add_(x))


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
        """Project the sources (B, S, D) once; `padding` (B, S) is True at padding."""
        sentences, length, d_model = encoded.shape
        both = self.key_value(encoded.flatten(0, 1)).view(sentences, length, self.heads, -1)
        both = both.transpose(1, 2).flatten(0, 1)  # (B H, S, K + V)
        if sentences == 1 and padding is None and self.heads * length <= 2 * d_model:
            return FoldedMemory(self, both)
        return SourceMemory(self, both, padding)


class SourceMemory:
    """Keys and values (B H, S, K + V) of a batch of sources, cached; padding (B, S) or None."""

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
        """(R, D) -> x + attention (R, D), without its LayerNorm; and the weights (B, H, W, S)."""
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

        def kept(x: Tensor) -> Tensor:
            return x.unflatten(0, (-1, self.weights.heads))[sentences].flatten(0, 1)

        self.keys_values = kept(self.keys_values)
        self.bias = None if self.bias is None else kept(self.bias)


class FoldedMemory:
    """One source, multiplied into the projections: scores = x (W_q K^T), output = weights (V W_o).

    For a single sentence, the number of function calls costs more than the matrix products. So the
    sub-layer becomes two products with a softmax between them. `keys_values`: (H, S, K + V).
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
