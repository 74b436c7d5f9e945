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

from vaswani_plugin.modules.layers import DecoderLayer
from vaswani_plugin.modules.packed_linear import PackedLinear, packed_by_head
from vaswani_plugin.modules.source_memory import PackedCrossAttention

ROOM = 5
"""Steps for which there are free slots after each clearing."""


class PackedAddNorm:
    """The end of a sub-layer, LayerNorm(x + sublayer), with final weights."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        self.arguments = norm.normalized_shape, norm.weight.detach(), norm.bias.detach(), norm.eps

    def __call__(self, x_and_sublayer: Tensor) -> Tensor:
        """The sum, (R, D) -> (R, D)."""
        return torch.layer_norm(x_and_sublayer, *self.arguments)


class PackedDecoderLayer:
    """A decoder layer's weights, final and laid out for one position at a time."""

    def __init__(self, layer: DecoderLayer) -> None:
        own, network = layer.self_attention, layer.feed_forward
        self.heads = own.heads
        self.d_k = own.query.out_features // own.heads
        self.query_key_value = packed_by_head(
            own.heads,
            (own.query, self.d_k**-0.5),  # Eq. 1's 1/sqrt(d_k)
            (own.key, 1),
            (own.value, 1),
        )
        self.width = (own.key.out_features + own.value.out_features) // own.heads  # K + V
        self.own_output = PackedLinear(own.output.weight, own.output.bias)
        self.own_norm = PackedAddNorm(layer.self_attention_norm.norm)
        self.cross_attention = PackedCrossAttention(layer.cross_attention)
        self.cross_norm = PackedAddNorm(layer.cross_attention_norm.norm)
        self.w_1 = PackedLinear(network.w_1.weight, network.w_1.bias, relu=True)
        self.w_2 = PackedLinear(network.w_2.weight, network.w_2.bias)
        self.network_norm = PackedAddNorm(layer.feed_forward_norm.norm)


class BeamDecoder:
    """Decodes one batch, without gradients; made anew for each.

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
        encoded = encoded.detach()
        self.layers = layers
        self.room = ROOM * beam
        self.window = window
        self.heads = layers[0].heads
        self.memories = [layer.cross_attention.read(encoded, padding) for layer in layers]
        sentences = encoded.size(0)
        shape = sentences, self.heads, self.room, layers[0].width
        # Keys and values side by side, one tensor a layer and one to move them to.
        self.caches = [encoded.new_empty(shape) for _ in layers]
        self.spare = encoded.new_empty(0)
        self.bias = encoded.new_empty(sentences, 1, 0)  # (B, W, N)
        self.own_slots = encoded.new_empty(0, 0)  # (W, W), the bias of a step's own slots
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
        shape = x.shape
        sentences, beams, _ = shape
        begin, bias = self._open_slots(beams, parents)
        end = begin + beams
        bias = bias[:, None].expand(-1, self.heads, -1, -1).flatten(0, 1)  # (B H, W, N)
        x = x.detach().flatten(0, 1)
        for layer, cache, memory in zip(self.layers, self.caches, self.memories, strict=True):
            d_k = layer.d_k
            projected = layer.query_key_value(x).view(sentences, beams, self.heads, -1)
            projected = projected.transpose(1, 2)  # (B, H, W, K + K + V)
            cache[:, :, begin:end] = projected[..., d_k:]
            past = cache.flatten(0, 1)[:, :end]  # (B H, N, K + V)
            query = projected[..., :d_k].flatten(0, 1)
            weights = torch.baddbmm(bias, query, past[..., :d_k].transpose(1, 2)).softmax(-1)
            attended = torch.bmm(weights, past[..., d_k:]).view(sentences, self.heads, beams, -1)
            attended = attended.transpose(1, 2).reshape(sentences * beams, -1)
            x = layer.own_norm(layer.own_output(attended).add_(x))
            summed, weights = memory.attend(x)
            x = layer.cross_norm(summed)
            x = layer.network_norm(layer.w_2(layer.w_1(x)).add_(x))
        self.position += 1
        return x.view(shape), weights

    def keep(self, sentences: Tensor) -> None:
        """Go on with these sentences only: (B',), numbers among those of the batch."""
        for memory in self.memories:
            memory.keep(sentences)
        self._clear(sentences)

    def _open_slots(self, beams: int, parents: Tensor | None) -> tuple[int, Tensor]:
        """A slot for each beam's new position; the first one's number, and the new bias."""
        if parents is not None:
            past = parents[:, :, None].expand(-1, -1, self.bias.size(2))
            self.bias = self.bias.gather(1, past)
        if self.bias.size(2) + beams > self.caches[0].size(2):
            self._clear()
        sentences, _, used = self.bias.shape
        if self.window:
            far = self.slot_positions <= self.position - self.window
            self.bias.masked_fill_(far[:, None], -math.inf)  # and so for every later position
            new = self.slot_positions.new_full((sentences, beams), self.position)
            self.slot_positions = torch.cat((self.slot_positions, new), dim=1)
        if self.own_slots.size(0) != beams:
            self.own_slots = self.bias.new_full((beams, beams), -math.inf).fill_diagonal_(0)
        self.bias = torch.cat((self.bias, self.own_slots.expand(sentences, -1, -1)), dim=2)
        return used, self.bias

    def _clear(self, sentences: Tensor | None = None) -> None:
        """Move what is still seen to the front of the caches, with free slots behind it."""
        if sentences is None:
            sentences = torch.arange(self.bias.size(0), device=self.bias.device)
        bias = self.bias.index_select(0, sentences)
        seen = bias.gt(-math.inf).any(dim=1)  # (B', N)
        used = int(seen.sum(dim=1).max()) if seen.numel() else 0
        slots = seen.byte().argsort(dim=1, descending=True, stable=True)[:, :used]
        self.bias = bias.gather(2, slots[:, None].expand(-1, bias.size(1), -1))
        if self.window:
            self.slot_positions = self.slot_positions.index_select(0, sentences).gather(1, slots)
        # The free slots are copies of any: one pass over memory that is there already.
        slots = torch.cat((slots, slots.new_zeros(len(sentences), self.room)), dim=1)
        heads = torch.arange(self.heads, device=slots.device)
        block = sentences[:, None] * self.heads + heads  # (B', H)
        rows = (block * self.caches[0].size(2))[:, :, None] + slots[:, None]  # (B', H, N')
        flat = rows.flatten()
        for number, cache in enumerate(self.caches):
            entries = len(flat) * cache.size(3)
            if self.spare.numel() < entries:
                self.spare = cache.new_empty(entries)
            moved = self.spare[:entries].view(len(flat), -1)
            torch.index_select(cache.flatten(0, 2), 0, flat, out=moved)
            self.spare, self.caches[number] = cache.view(-1), moved.view(*rows.shape, -1)
