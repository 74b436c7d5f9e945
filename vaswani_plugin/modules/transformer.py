"""The Transformer (section 3, Figure 1): encoder, decoder and projection. It needs only PyTorch.

A language model is the decoder alone, without cross-attention.

Axes: B batch, S source length, T target length, D d_model, H heads, V vocabulary.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.modules.attention import (
    KeyValueCache,
    MultiHeadAttention,
    Window,
    neighbourhood,
    padding_mask,
    past_mask,
)
from vaswani_plugin.modules.embedding import (
    Embedding,
    SinusoidalPositions,
    add_positions,
    position_ids,
)
from vaswani_plugin.modules.layers import AddNorm, DecoderLayer, EncoderLayer, FeedForward

if TYPE_CHECKING:
    from vaswani_plugin.modules.parser import NextWord  # translations have none

Cache = dict[str, KeyValueCache]
"""Caches of a decoder's attentions, by the attention's name; empty before the first step."""


class Output(NamedTuple):
    """Result of encoder, decoder and language model; T' is the number of positions computed."""

    features: Tensor  # (B, T', D)
    self_weights: list[Tensor]  # (B, H, T', T) of each layer; empty unless asked for
    cross_weights: list[Tensor]  # (B, H, T', S) of the layers asked for


class Memory(NamedTuple):
    """What a decoder reads of a batch of sources."""

    features: Tensor  # encoder output, (B, S, D)
    mask: Tensor | None  # boolean (B, 1, 1, S), False at padding; None: there is no padding
    words: Tensor | None = None  # of a parser with `NextWord`, (B, S + 1, D)

    def select(self, rows: Tensor) -> "Memory":
        """Return the rows of these numbers, (B',); a number may occur repeatedly."""
        return Memory(*(None if x is None else x.index_select(0, rows) for x in self))


class Stack(nn.Module):
    """The common parts of encoder and decoder: embeddings + positions, dropout, N layers.

    Args:
        embedding: of the tokens.
        positions: (B, T) position numbers below its `max_positions` -> (B, T, D).
        layers: the N layers.
        dropout: P_drop, on embeddings + positions (section 5.4).
        window: r of restricted self-attention (section 4); 0 attends everywhere.

    Attributes:
        run_layer: in training `run_layer(layer, *arguments)` is called in place of
            `layer(*arguments)`, to recompute or to compile; None: no replacement.
    """

    def __init__(
        self,
        embedding: Embedding,
        positions: nn.Module,
        layers: Iterable[nn.Module],
        dropout: float,
        window: int = 0,
    ) -> None:
        super().__init__()
        self.padding_idx = embedding.padding_idx
        self.dropout = dropout
        self.window = window
        self.embedding = embedding
        self.positions = positions
        self.layers = nn.ModuleList(layers)
        self.run_layer: Callable[..., tuple] | None = None

    def embed(self, tokens: Tensor, past: int = 0) -> Tensor:
        """Add positions to the embeddings: (B, T) -> (B, T - past, D).

        Raises:
            ValueError: when a sequence is longer than the table of positions.
        """
        ids, most = position_ids(tokens, self.padding_idx), self.positions.max_positions
        if tokens.size(1) > most and (longest := int(ids.max()) + 1) > most:  # not only padding
            raise ValueError(f"a sequence of {longest} tokens; the model has {most} positions")
        x = add_positions(self.embedding(tokens[:, past:]), self.positions(ids[:, past:]))
        return F.dropout(x, self.dropout, self.training)

    def run(self, layer: nn.Module, *arguments) -> tuple:
        """Call `layer(*arguments)`; in training call `run_layer` where there is one."""
        if self.training and self.run_layer is not None:
            return self.run_layer(layer, *arguments)
        return layer(*arguments)


class Encoder(Stack):
    """Left half of Figure 1."""

    def forward(self, tokens: Tensor, need_weights: bool = False, is_padded: bool = True) -> Output:
        """Encode tokens (B, S), padded on either side.

        Args:
            tokens: (B, S).
            need_weights: return the weights of every layer.
            is_padded: False: the caller promises that there is no padding; saves the mask.
        """
        mask: Tensor | Window | None = padding_mask(tokens, self.padding_idx) if is_padded else None
        if self.window:
            mask = neighbourhood(self.window, mask)
        x = self.embed(tokens)
        all_weights = []
        for layer in self.layers:
            x, weights = self.run(layer, x, mask, False, None, need_weights)
            all_weights += [weights] if need_weights else []
        return Output(x, all_weights, [])


class Decoder(Stack):
    """Right half of Figure 1. `projection` is the pre-softmax linear transformation, V x D.

    A parser's decoder may read the next word of the source, `next_word`.
    """

    def __init__(
        self,
        embedding: Embedding,
        positions: nn.Module,
        layers: Iterable[DecoderLayer],
        dropout: float,
        window: int = 0,
        projection: Embedding | None = None,
        next_word: "NextWord | None" = None,
    ) -> None:
        super().__init__(embedding, positions, layers, dropout, window)
        self.projection = embedding if projection is None else projection
        self.next_word = next_word

    def forward(
        self,
        tokens: Tensor,
        memory: Tensor,
        memory_mask: Tensor | None = None,
        cache: Cache | None = None,
        right_padded: bool = False,
        need_weights: bool = False,
        alignment_layer: int | None = None,
        added: Tensor | None = None,
    ) -> Output:
        """Compute the features of each next token.

        Args:
            tokens: the target shifted right, (B, T).
            memory: encoder output, (B, S, D).
            memory_mask: boolean, broadcastable to (B, H, T, S), False at padding.
            cache: keys and values; only positions that are not yet cached are computed.
            right_padded: the caller promises that padding only follows the tokens; saves a mask.
            need_weights: return the weights of every layer.
            alignment_layer: return this layer's cross-attention weights (0 is the first layer).
            added: vectors to add to embeddings + positions, (B, T', D).
        """
        past = cached_positions(cache)
        mask = past_mask(tokens, self.padding_idx, past, self.window, right_padded)
        x = self.embed(tokens, past)
        x = x if added is None else x + added
        all_self, all_cross = [], []
        for number, layer in enumerate(self.layers):
            caches = tuple(layer_cache(cache, number, kind) for kind in ("self", "cross"))
            need_cross = need_weights or number == alignment_layer
            x, self_weights, cross_weights = self.run(
                layer, x, memory, mask, memory_mask, mask is None, caches, need_weights, need_cross
            )
            all_self += [self_weights] if need_weights else []
            all_cross += [cross_weights] if need_cross else []
        return Output(x, all_self, all_cross)

    def project(self, features: Tensor) -> Tensor:
        """(..., D) -> logits (..., V)."""
        return self.projection.project(features)


class LanguageModel(Stack):
    """The decoder of Figure 1 without cross-attention; one matrix embeds and projects."""

    def __init__(self, embedding: Embedding, *others, **options) -> None:
        super().__init__(embedding, *others, **options)
        self.projection = embedding

    def forward(
        self,
        tokens: Tensor,
        cache: Cache | None = None,
        right_padded: bool = False,
    ) -> Output:
        """Compute the features of each next token of texts shifted right; see `Decoder.forward`."""
        past = cached_positions(cache)
        mask = past_mask(tokens, self.padding_idx, past, self.window, right_padded)
        x = self.embed(tokens, past)
        for number, layer in enumerate(self.layers):
            x, _ = self.run(layer, x, mask, mask is None, layer_cache(cache, number, "self"), False)
        return Output(x, [], [])

    def project(self, features: Tensor) -> Tensor:
        """(..., D) -> logits (..., V)."""
        return self.projection.project(features)


class EncoderDecoder(nn.Module):
    """Figure 1, of an encoder and a decoder."""

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def encode(self, source: Tensor, is_padded: bool = True) -> Memory:
        """Encode sources (B, S); for `is_padded` see `Encoder.forward`."""
        features = self.encoder(source, is_padded=is_padded).features
        mask = padding_mask(source, self.encoder.padding_idx) if is_padded else None
        next_word = self.decoder.next_word
        return Memory(features, mask, next_word and next_word.words(source, features))

    def decode(
        self, target: Tensor, memory: Memory, cache: Cache | None = None, **options
    ) -> Output:
        """Compute the features of each next token of targets shifted right, (B, T).

        For cache and options see `Decoder.forward`.
        """
        added = None
        if memory.words is not None:
            written = self.decoder.next_word.written(target)[:, cached_positions(cache) :]
            added = self.decoder.next_word(memory.words, written)
        return self.decoder(target, memory.features, memory.mask, cache, added=added, **options)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source (B, S) and target shifted right (B, T) -> logits of the next tokens (B, T, V)."""
        return self.decoder.project(self.decode(target, self.encode(source)).features)


class Transformer(EncoderDecoder):
    """Figure 1 from numbers; the defaults are the base model (Table 3, first line).

    Vocabularies of the same size are taken for one vocabulary. Then one matrix embeds source and
    target and projects (section 3.4); otherwise only target and projection share a matrix.

    Args:
        source_vocabulary, target_vocabulary: numbers of tokens.
        padding_idx: number of the padding in both.
        layers: N, of the encoder and of the decoder.
        d_model, d_ff, heads, dropout: the paper's names; d_k = d_v = d_model / heads.
        max_positions: longest sequence in tokens.

    Raises:
        ValueError: the heads don't divide d_model.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        padding_idx: int,
        layers: int = 6,
        d_model: int = 512,
        d_ff: int = 2048,
        heads: int = 8,
        dropout: float = 0.1,
        max_positions: int = 1024,
    ) -> None:
        if d_model % heads:
            raise ValueError(f"{heads} heads don't divide d_model, {d_model}")

        def attention() -> MultiHeadAttention:
            return MultiHeadAttention(d_model, heads, d_model // heads, d_model // heads)

        def feed_forward() -> FeedForward:
            return FeedForward(d_model, d_ff)

        def add_norm() -> AddNorm:
            return AddNorm(d_model, dropout)

        target = source = Embedding(target_vocabulary, d_model, padding_idx)
        if source_vocabulary != target_vocabulary:
            source = Embedding(source_vocabulary, d_model, padding_idx)
        positions = SinusoidalPositions(max_positions, d_model)
        encoder = (EncoderLayer(attention(), feed_forward(), add_norm) for _ in range(layers))
        decoder = (
            DecoderLayer(attention(), attention(), feed_forward(), add_norm) for _ in range(layers)
        )
        super().__init__(
            Encoder(source, positions, encoder, dropout),
            Decoder(target, positions, decoder, dropout),
        )


def cached_positions(cache: Cache | None) -> int:
    """Return the number of positions in a decoder's cache; 0 where there is no cache."""
    return cache["layers.0.self_attention"]["key"].size(2) if cache else 0


def layer_cache(cache: Cache | None, number: int, kind: str) -> KeyValueCache | None:
    """Return the cache of one attention, made if it is missing; None where there is no cache."""
    return None if cache is None else cache.setdefault(f"layers.{number}.{kind}_attention", {})
