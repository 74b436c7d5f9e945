"""The layers of a decoder, one position at a time for all beams of a batch.

`DecoderStack` computes the same as `modules.transformer.Decoder`. `ContinuationStack` computes the
same as `modules.language_model.LanguageModel`, after prompts whose keys and values are cached.

Axes: B texts, W beams, R = B W rows, H heads, S source length, P prompt length, D d_model, K d_k,
V d_v.
"""

import torch
from torch import Tensor

from vaswani_plugin.modules.attention import KeyValueCache
from vaswani_plugin.modules.layers import DecoderLayer, EncoderLayer
from vaswani_plugin.search.beam_past import BeamPast
from vaswani_plugin.search.layers import (
    PackedAddNorm,
    PackedFeedForward,
    PackedSelfAttention,
)
from vaswani_plugin.search.source_memory import PackedCrossAttention


class PackedLanguageModelLayer:
    """A layer of self-attention and a feed-forward network, with packed weights."""

    def __init__(self, layer: EncoderLayer | DecoderLayer) -> None:
        norm = layer.self_attention_norm.norm
        self.self_attention = PackedSelfAttention(layer.self_attention, norm)
        self.feed_forward = PackedFeedForward(layer.feed_forward, layer.feed_forward_norm.norm)


class PackedDecoderLayer(PackedLanguageModelLayer):
    """A layer with cross-attention between self-attention and feed-forward network."""

    def __init__(self, layer: DecoderLayer) -> None:
        super().__init__(layer)
        self.cross_attention = PackedCrossAttention(layer.cross_attention)
        self.cross_attention_norm = PackedAddNorm(layer.cross_attention_norm.norm)


class DecoderStack:
    """Decodes one batch, without gradients. Every batch needs its own.

    Args:
        layers: the packed layers.
        encoded: encoder output, (B, S, D).
        padding: (B, S), True at padding; None where there is none.
        beam: W, the greatest number of beams of a sentence.
        window: with r > 0 a position attends only to the r latest positions.
    """

    def __init__(
        self,
        layers: list[PackedDecoderLayer],
        encoded: Tensor,
        padding: Tensor | None,
        beam: int,
        window: int,
    ) -> None:
        encoded = encoded.detach()
        self.layers = layers
        self.memories = [layer.cross_attention.read(encoded, padding) for layer in layers]
        own = layers[0].self_attention
        nothing = encoded.new_empty(encoded.size(0), own.heads, 0, own.width)
        lengths = torch.zeros(encoded.size(0), dtype=torch.long, device=encoded.device)
        self.past = BeamPast([nothing] * len(layers), lengths, beam, window)

    def step(self, x: Tensor, parents: Tensor | None) -> tuple[Tensor, Tensor]:
        """Decode the next position of every beam.

        Args:
            x: embedded tokens, (B, W, D).
            parents: (B, W), the beam of the previous step that each beam continues; None where
                every beam continues itself.

        Returns:
            Features (B, W, D), and the last layer's attention to the source, (B, H, W, S).
        """
        shape = x.shape
        bias = self.past.open_slots(x.size(1), parents)
        x = x.detach().flatten(0, 1)
        for layer, cache, memory in zip(self.layers, self.past.caches, self.memories, strict=True):
            x = layer.self_attention(x, cache, bias)
            summed, weights = memory.attend(x)
            x = layer.cross_attention_norm(summed)
            x = layer.feed_forward(x)
        return x.view(shape), weights

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences only: (B',), their numbers in the batch."""
        for memory in self.memories:
            memory.keep(sentences)
        self.past.keep(sentences)


class ContinuationStack:
    """Continues one batch of prompts, without gradients. Every batch needs its own.

    Args:
        layers: the packed layers.
        prompts: keys (B, H, P, K) and values (B, H, P, V) of each layer.
        lengths: of the prompts, (B,); later positions are padding.
        beam: W, the greatest number of beams of a prompt.
        window: with r > 0 a position attends only to the r latest positions.
    """

    def __init__(
        self,
        layers: list[PackedLanguageModelLayer],
        prompts: list[KeyValueCache],
        lengths: Tensor,
        beam: int,
        window: int,
    ) -> None:
        self.layers = layers
        start = [torch.cat((read["key"], read["value"]), dim=-1).detach() for read in prompts]
        self.past = BeamPast(start, lengths, beam, window)

    def step(self, x: Tensor, parents: Tensor) -> Tensor:
        """Decode the next position of every beam: see `DecoderStack.step`."""
        shape = x.shape
        bias = self.past.open_slots(x.size(1), parents)
        x = x.detach().flatten(0, 1)
        for layer, cache in zip(self.layers, self.past.caches, strict=True):
            x = layer.feed_forward(layer.self_attention(x, cache, bias))
        return x.view(shape)

    def keep(self, texts: Tensor) -> None:
        """Keep these texts only: (B',), their numbers in the batch."""
        self.past.keep(texts)
