"""The decoder stack one position at a time, for all beams of a batch: what search runs.

It computes what `DecoderStack.forward` computes, and never moves a cached key when beams are
reordered. A sentence's keys lie in slots that its beams share; a bias says which slots are a
beam's own past. Following the best beams is then to reorder the bias, and beams with a common
past read it once. What no beam sees any more is dropped when the room runs out.

Axes: B sentences, W beams, R = B W rows, H heads, N slots, S source length, D d_model, K d_k,
V d_v.
"""

import math

import torch
from torch import Tensor, nn

from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.layers import DecoderLayer
from vaswani_plugin.modules.packed_linear import PackedLinear

ROOM = 8
"""Steps for which there are free slots after each clearing."""


def _together(*parts: tuple[nn.Linear, float]) -> PackedLinear:
    """Several projections of one input as one, each multiplied by a number."""
    weight = torch.cat([linear.weight * factor for linear, factor in parts])
    return PackedLinear(weight, torch.cat([linear.bias * factor for linear, factor in parts]))


class PackedDecoderLayer:
    """A decoder layer's weights, final and laid out for one position at a time."""

    def __init__(self, layer: DecoderLayer) -> None:
        own, cross, network = layer.self_attention, layer.cross_attention, layer.feed_forward
        self.heads = own.heads
        self.query_key_value = _together((own.query, _scale(own)), (own.key, 1), (own.value, 1))
        self.own_sizes = [p.out_features for p in (own.query, own.key, own.value)]
        self.own_output = PackedLinear(own.output.weight, own.output.bias)
        self.own_norm = PackedAddNorm(layer.self_attention_norm.norm)
        self.cross_query = _together((cross.query, _scale(cross)))
        self.cross_key_value = _together((cross.key, 1), (cross.value, 1))
        self.cross_sizes = [p.out_features for p in (cross.key, cross.value)]
        self.cross_output = PackedLinear(cross.output.weight, cross.output.bias)
        self.cross_norm = PackedAddNorm(layer.cross_attention_norm.norm)
        self.w_1 = PackedLinear(network.w_1.weight, network.w_1.bias, relu=True)
        self.w_2 = PackedLinear(network.w_2.weight, network.w_2.bias)
        self.network_norm = PackedAddNorm(layer.feed_forward_norm.norm)

    def memory(self, encoded: Tensor) -> list[Tensor]:
        """The encoder's output (B, S, D) -> its keys (B H, S, K) and values (B H, S, V)."""
        both = self.cross_key_value(encoded.flatten(0, 1)).unflatten(0, encoded.shape[:2])
        parts = both.split(self.cross_sizes, -1)
        return [_split(part, self.heads).flatten(0, 1) for part in parts]


def _scale(attention: MultiHeadAttention) -> float:
    """Eq. 1's 1/sqrt(d_k), moved into the projection of the queries."""
    return (attention.query.out_features // attention.heads) ** -0.5


def _split(x: Tensor, heads: int) -> Tensor:
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)  # (B, W, H K) -> (B, H, W, K)


class PackedAddNorm:
    """The end of a sub-layer, LayerNorm(x + sublayer), with final weights."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        self.arguments = norm.normalized_shape, norm.weight.detach(), norm.bias.detach(), norm.eps

    def __call__(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        """Two (R, D) -> (R, D); the second one is overwritten."""
        return torch.layer_norm(sublayer_output.add_(x), *self.arguments)


def _attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> list[Tensor]:
    """Eq. 1 over (B H, W, K), (B H, N, K) and (B H, N, V): outputs and weights (B H, W, N)."""
    if bias is None:
        scores = torch.bmm(query, key.transpose(1, 2))
    else:
        scores = torch.baddbmm(bias, query, key.transpose(1, 2))
    weights = scores.softmax(-1)
    return [torch.bmm(weights, value), weights]


class BeamDecoder:
    """Decodes one batch; made anew for each.

    Args:
        layers: the packed stack.
        encoded: the encoder's output, (B, S, D).
        padding: (B, S), True at padding; None where there is none.
        beam: W, the greatest number of beams of a sentence.
        window: with r > 0 a position attends to its r latest ones only.
    """

    def __init__(
        self,
        layers: list[PackedDecoderLayer],
        encoded: Tensor,
        padding: Tensor | None,
        beam: int,
        window: int = 0,
    ) -> None:
        self.layers = layers
        self.room = ROOM * beam
        self.window = window
        self.heads = layers[0].heads
        self.memory = [layer.memory(encoded) for layer in layers]
        self.padding_bias = None
        if padding is not None:
            hidden = encoded.new_zeros(padding.shape).masked_fill_(padding, -math.inf)
            self.padding_bias = hidden.repeat_interleave(self.heads, 0)[:, None]  # (B H, 1, S)
        sentences = encoded.size(0)
        self.keys, self.values = [], []  # (B, H, slots, K) and (B, H, slots, V) a layer
        for layer in layers:
            for cache, size in zip((self.keys, self.values), layer.own_sizes[1:], strict=True):
                width = size // self.heads
                cache.append(encoded.new_empty(sentences, self.heads, self.room, width))
        self.bias = encoded.new_empty(sentences, 1, 0)  # (B, W, N)
        self.slot_positions = torch.empty(sentences, 0, dtype=torch.long, device=encoded.device)
        self.position = 0

    def step(self, x: Tensor, parents: Tensor | None) -> tuple[Tensor, Tensor]:
        """Decode the next position of every beam.

        Args:
            x: embedded tokens, (B, W, D).
            parents: (B, W), which of the sentence's earlier beams each one continues; None
                where the beams are those of the step before.

        Returns:
            Features (B, W, D), and the last layer's attention to the source, (B, H, W, S).
        """
        sentences, beams, _ = x.shape
        begin, bias = self._open_slots(beams, parents)
        end = begin + beams
        batch = (sentences * self.heads, beams, -1)
        bias = bias[:, None].expand(-1, self.heads, -1, -1).reshape(batch)
        x = x.reshape(sentences * beams, -1)
        for number, layer in enumerate(self.layers):
            projected = layer.query_key_value(x).view(sentences, beams, -1)
            query, key, value = (
                part.view(sentences, beams, self.heads, -1).transpose(1, 2)
                for part in projected.split(layer.own_sizes, -1)
            )
            keys, values = self.keys[number], self.values[number]
            keys[:, :, begin:end] = key
            values[:, :, begin:end] = value
            past = [cache.view(*batch[:1], *cache.shape[2:])[:, :end] for cache in (keys, values)]
            attended, _ = _attend(query.reshape(batch), *past, bias)
            x = layer.own_norm(x, layer.own_output(self._join(attended, sentences)))
            query = _split(layer.cross_query(x).view(sentences, beams, -1), self.heads)
            memory = self.memory[number]
            attended, weights = _attend(query.reshape(batch), *memory, self.padding_bias)
            x = layer.cross_norm(x, layer.cross_output(self._join(attended, sentences)))
            x = layer.network_norm(x, layer.w_2(layer.w_1(x)))
        self.position += 1
        return x.view(sentences, beams, -1), weights.view(sentences, self.heads, beams, -1)

    def keep(self, sentences: Tensor) -> None:
        """Go on with these sentences only: (B',), numbers among those of the batch."""
        heads = torch.arange(self.heads, device=sentences.device)
        rows = (sentences[:, None] * self.heads + heads).flatten()
        self.memory = [[x.index_select(0, rows) for x in pair] for pair in self.memory]
        if self.padding_bias is not None:
            self.padding_bias = self.padding_bias.index_select(0, rows)
        self._clear(sentences)

    def _join(self, heads: Tensor, sentences: int) -> Tensor:
        """(B H, W, V) -> (R, H V)."""
        beams = heads.size(1)
        heads = heads.view(sentences, self.heads, beams, -1).transpose(1, 2)
        return heads.reshape(sentences * beams, -1)

    def _open_slots(self, beams: int, parents: Tensor | None) -> tuple[int, Tensor]:
        """A slot for each beam's new position; the first one's number, and the new bias."""
        if parents is not None:
            past = parents[:, :, None].expand(-1, -1, self.bias.size(2))
            self.bias = self.bias.gather(1, past)
        if self.bias.size(2) + beams > self.keys[0].size(2):
            self._clear()
        sentences, _, used = self.bias.shape
        if self.window:
            far = self.slot_positions <= self.position - self.window
            self.bias.masked_fill_(far[:, None], -math.inf)  # and so for every later position
            new = self.slot_positions.new_full((sentences, beams), self.position)
            self.slot_positions = torch.cat((self.slot_positions, new), dim=1)
        own = self.bias.new_full((beams, beams), -math.inf).fill_diagonal_(0)
        self.bias = torch.cat((self.bias, own.expand(sentences, -1, -1)), dim=2)
        return used, self.bias

    def _clear(self, sentences: Tensor | None = None) -> None:
        """Move what is still seen to the front of new caches with free slots behind it."""
        if sentences is None:
            sentences = torch.arange(self.bias.size(0), device=self.bias.device)
        bias = self.bias.index_select(0, sentences)
        seen = bias.gt(-math.inf).any(dim=1)  # (B', N)
        used = int(seen.sum(dim=1).max()) if seen.numel() else 0
        slots = seen.byte().argsort(dim=1, descending=True, stable=True)[:, :used]
        self.bias = bias.gather(2, slots[:, None].expand(-1, bias.size(1), -1))
        if self.window:
            self.slot_positions = self.slot_positions.index_select(0, sentences).gather(1, slots)
        heads = torch.arange(self.heads, device=slots.device)
        block = sentences[:, None] * self.heads + heads  # (B', H)
        rows = (block * self.keys[0].size(2))[:, :, None] + slots[:, None]  # (B', H, N')
        for cache in (self.keys, self.values):
            for number, old in enumerate(cache):
                seen_ones = old.flatten(0, 2).index_select(0, rows.flatten()).view(*rows.shape, -1)
                new = old.new_empty(len(sentences), self.heads, used + self.room, old.size(-1))
                new[:, :, :used] = seen_ones
                cache[number] = new
