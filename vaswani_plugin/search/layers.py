"""The sub-layers of section 3.1 with packed weights, one position at a time.

Axes: B texts, W beams, R = B W rows, H heads, N slots, D d_model, K d_k, V d_v.
"""

import torch
from torch import Tensor, nn

from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.feed_forward import FeedForward
from vaswani_plugin.search.packed_linear import PackedLinear, packed_by_head


class PackedAddNorm:
    """The end of a sub-layer: LayerNorm(x + sublayer), given the sum."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        self.arguments = norm.normalized_shape, norm.weight.detach(), norm.bias.detach(), norm.eps

    def __call__(self, x_and_sublayer: Tensor) -> Tensor:
        """Normalize the sum: (R, D) -> (R, D)."""
        return torch.layer_norm(x_and_sublayer, *self.arguments)


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
        self.norm = PackedAddNorm(norm)
        both = attention.key.out_features + attention.value.out_features
        self.width = both // self.heads  # K + V

    def __call__(self, x: Tensor, cache: Tensor, bias: Tensor) -> Tensor:
        """Write the new keys and values into the last W of the slots in use, then attend.

        Args:
            x: (R, D).
            cache: the layer's slots, of which the first N are in use, (B, H, room, K + V).
            bias: 0 at slots that a beam sees, -inf at others, (B H, W, N).

        Returns:
            (R, D).
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
        self.norm = PackedAddNorm(norm)

    def __call__(self, x: Tensor) -> Tensor:
        """(R, D) -> (R, D)."""
        return self.norm(self.w_2(self.w_1(x)).add_(x))
