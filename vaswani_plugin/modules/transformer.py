"""The Transformer (section 3, Figure 1): encoder, decoder and projection. It needs only PyTorch.

A language model is the decoder alone, without cross-attention.

Axes: B batch, S source length, T target length, T' new tokens, D d_model, H heads, V vocabulary.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.modules.attention import (
    KeysAndValues,
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

Entries = tuple[KeysAndValues | None, KeysAndValues | None]
"""What a layer keeps for its self-attention and its cross-attention."""


class WholeSequence:
    """The cache of a decoder that reads whole sequences: it keeps nothing.

    A decoder asks its cache which tokens are new, where they stand and whom they may attend to;
    each attention extends the keys and values of its layer. Another class with the same methods may
    keep them in another way.

    Attributes:
        length: positions so far, the new ones included.
    """

    def __init__(self) -> None:
        self.length = 0

    def begin(
        self, tokens: Tensor, padding_idx: int, window: int = 0, right_padded: bool = False
    ) -> tuple[Tensor, Tensor, Tensor | Window | None]:
        """Start to read.

        Args:
            tokens: all so far, (B, T).
            padding_idx, window, right_padded: see `past_mask`.

        Returns:
            The new tokens (B, T'), the numbers of their positions, and the mask of `past_mask`.
        """
        past, self.length = self.length, tokens.size(1)
        mask = past_mask(tokens, padding_idx, past, window, right_padded)
        return tokens[:, past:], position_ids(tokens, padding_idx)[:, past:], mask

    def running_sum(self, name: str, amounts: Tensor) -> Tensor:
        """Sum the amounts of the new tokens (B, T'), and those before, up to each: (B, T')."""
        return amounts.cumsum(dim=1)

    def entries(self, layer: int) -> Entries:
        """Return what the layer of this number, from 0, keeps."""
        return None, None


class Cache(WholeSequence):
    """Keys and values of all positions so far; empty before the first call of the decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.layers: list[tuple[KeysAndValues, KeysAndValues]] = []
        self.sums: dict[str, Tensor] = {}  # (B, 1)

    def running_sum(self, name: str, amounts: Tensor) -> Tensor:
        """See `WholeSequence`."""
        sums = amounts.cumsum(dim=1) + self.sums.get(name, 0)
        self.sums[name] = sums[:, -1:]
        return sums

    def entries(self, layer: int) -> tuple[KeysAndValues, KeysAndValues]:
        """See `WholeSequence`."""
        while len(self.layers) <= layer:
            self.layers.append((KeysAndValues(), KeysAndValues()))
        return self.layers[layer]

    def select(self, rows: Tensor) -> None:
        """See `KeysAndValues.select`."""
        self.sums = {name: sums.index_select(0, rows) for name, sums in self.sums.items()}
        for entry in (entry for layer in self.layers for entry in layer):
            entry.select(rows)


class Output(NamedTuple):
    """Result of encoder, decoder and language model; T' is the number of positions computed."""

    features: Tensor  # (B, T', D)
    self_weights: list[Tensor]  # (B, H, T', T) of each layer; empty unless asked for
    cross_weights: list[Tensor]  # (B, H, T', S) of the layers asked for


class Memory(NamedTuple):
    """What a decoder reads of a batch of sources."""

    features: Tensor  # encoder output, (B, S, D)
    mask: Tensor | None = None  # boolean (B, 1, 1, S), False at padding; None: there is none

    def select(self, rows: Tensor) -> "Memory":
        """Return the rows of these numbers, (B',); a number may occur repeatedly."""
        return Memory._make(None if x is None else x.index_select(0, rows) for x in self)


class Stack(nn.Module):
    """The common parts of encoder and decoder: embeddings + positions, dropout, N layers.

    Args:
        embedding: of the tokens.
        positions: (B, T) position numbers below its `max_positions` -> (B, T, D).
        layers: the N layers.
        dropout: P_drop, on embeddings + positions (section 5.4).
        window: r of restricted self-attention (section 4); 0 attends everywhere.
        norm: LayerNorm of the last layer's output, for layers of `PreNorm`; the paper has none.

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
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.padding_idx = embedding.padding_idx
        self.dropout = dropout
        self.window = window
        self.embedding = embedding
        self.positions: Any = positions
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.run_layer: Callable[..., tuple] | None = None

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Add positions (B, T), numbers, to the embeddings of tokens: (B, T) -> (B, T, D)."""
        x = add_positions(self.embedding(tokens), self.positions(positions))
        return F.dropout(x, self.dropout, self.training)

    def require_positions(self, length: int, positions: Tensor) -> None:
        """Refuse sequences that are longer than the table of positions.

        Args:
            length: of the batch, padding included; a shorter one needs no look at `positions`.
            positions: numbers of the new tokens.

        Raises:
            ValueError: says how long the longest sequence is.
        """
        most = self.positions.max_positions
        if length > most and (longest := int(positions.max()) + 1) > most:  # not only padding
            raise ValueError(f"a sequence of {longest} tokens; the model has {most} positions")

    def finish(self, x: Tensor) -> Tensor:
        """Return the stack's output, given the last layer's, (B, T, D)."""
        return x if self.norm is None else self.norm(x)

    def run(self, layer: nn.Module, *arguments: Any, **options: Any) -> tuple:
        """Call `layer(*arguments)`; in training call `run_layer` where there is one."""
        if self.training and self.run_layer is not None:
            return self.run_layer(layer, *arguments, **options)
        return layer(*arguments, **options)


class Encoder(Stack):
    """Left half of Figure 1."""

    def forward(self, tokens: Tensor, need_weights: bool = False, is_padded: bool = True) -> Output:
        """Encode tokens (B, S), padded on either side.

        Args:
            tokens: (B, S).
            need_weights: return the weights of every layer.
            is_padded: False: the caller promises that there is no padding; saves the mask.
        """
        visible = padding_mask(tokens, self.padding_idx) if is_padded else None
        mask = neighbourhood(self.window, visible) if self.window else visible
        positions = position_ids(tokens, self.padding_idx)
        self.require_positions(tokens.size(1), positions)
        x = self.embed(tokens, positions)
        all_weights = []
        for layer in self.layers:
            x, weights = self.run(layer, x, mask=mask, need_weights=need_weights)
            all_weights += [weights] if need_weights else []
        return Output(self.finish(x), all_weights, [])


class Decoder(Stack):
    """Right half of Figure 1. `projection` is the pre-softmax linear transformation, V x D."""

    def __init__(
        self,
        embedding: Embedding,
        positions: nn.Module,
        layers: Iterable[DecoderLayer],
        dropout: float,
        window: int = 0,
        norm: nn.Module | None = None,
        projection: Embedding | None = None,
    ) -> None:
        super().__init__(embedding, positions, layers, dropout, window, norm)
        self.projection = embedding if projection is None else projection

    def remember(self, source: Tensor, features: Tensor, mask: Tensor | None) -> Memory:
        """Make what `forward` reads of sources (B, S), given the encoder's output (B, S, D)."""
        return Memory(features, mask)

    def inputs(
        self, tokens: Tensor, positions: Tensor, memory: Memory, cache: WholeSequence
    ) -> Tensor:
        """Return the first layer's input for the new tokens, (B, T') -> (B, T', D)."""
        return self.embed(tokens, positions)

    def forward(
        self,
        tokens: Tensor,
        memory: Memory | Tensor,
        memory_mask: Tensor | None = None,
        cache: WholeSequence | None = None,
        right_padded: bool = False,
        need_weights: bool = False,
        alignment_layer: int | None = None,
    ) -> Output:
        """Compute the features of each next token.

        Args:
            tokens: the target shifted right, (B, T).
            memory: encoder output, (B, S, D), or what `remember` makes of it.
            memory_mask: boolean, broadcastable to (B, H, T, S), False at padding; of a `Memory` its
                own mask is taken.
            cache: a `Cache`; only positions that it doesn't have yet are computed.
            right_padded: the caller promises that padding only follows the tokens; saves a mask.
            need_weights: return the weights of every layer.
            alignment_layer: return this layer's cross-attention weights (0 is the first layer).
        """
        if isinstance(memory, Tensor):
            memory = Memory(memory, memory_mask)
        cache = WholeSequence() if cache is None else cache
        new, positions, mask = cache.begin(tokens, self.padding_idx, self.window, right_padded)
        self.require_positions(cache.length, positions)
        x = self.inputs(new, positions, memory, cache)
        all_self, all_cross = [], []
        for number, layer in enumerate(self.layers):
            is_aligned = need_weights or number == alignment_layer
            x, self_weights, cross_weights = self.run(
                layer,
                x,
                memory.features,
                self_mask=mask,
                memory_mask=memory.mask,
                is_causal=mask is None,
                caches=cache.entries(number),
                need_self_weights=need_weights,
                need_cross_weights=is_aligned,
            )
            all_self += [self_weights] if need_weights else []
            all_cross += [cross_weights] if is_aligned else []
        return Output(self.finish(x), all_self, all_cross)

    def project(self, features: Tensor) -> Tensor:
        """(..., D) -> logits (..., V)."""
        return self.projection.project(features)


class DecoderOnly(Stack):
    """The decoder of Figure 1 without cross-attention; one matrix embeds and projects."""

    def __init__(self, embedding: Embedding, *others: Any, **options: Any) -> None:
        super().__init__(embedding, *others, **options)
        self.projection = embedding

    def forward(
        self, tokens: Tensor, cache: WholeSequence | None = None, right_padded: bool = False
    ) -> Output:
        """Compute the features of each next token of texts shifted right; see `Decoder.forward`."""
        cache = WholeSequence() if cache is None else cache
        new, positions, mask = cache.begin(tokens, self.padding_idx, self.window, right_padded)
        self.require_positions(cache.length, positions)
        x = self.embed(new, positions)
        for number, layer in enumerate(self.layers):
            entry, _ = cache.entries(number)
            x, _ = self.run(layer, x, mask=mask, is_causal=mask is None, cache=entry)
        return Output(self.finish(x), [], [])

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
        return self.decoder.remember(source, features, mask)

    def decode(
        self, target: Tensor, memory: Memory, cache: WholeSequence | None = None, **options: Any
    ) -> Output:
        """Compute the features of each next token of targets shifted right, (B, T).

        For cache and options see `Decoder.forward`.
        """
        return self.decoder(target, memory, cache=cache, **options)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source (B, S) and target shifted right (B, T) -> logits of the next tokens (B, T, V)."""
        return self.decoder.project(self.decode(target, self.encode(source)).features)


class Transformer(EncoderDecoder):
    """Figure 1 from numbers; the defaults are the base model (Table 3, first line).

    Args:
        source_vocabulary, target_vocabulary: numbers of tokens.
        padding_idx: number of the padding in both.
        layers: N, of the encoder and of the decoder.
        d_model, d_ff, heads, dropout: the paper's names; d_k = d_v = d_model / heads.
        max_positions: longest sequence in tokens.
        share_embeddings: source and target have one vocabulary, and one matrix embeds both and
            projects (section 3.4); False: only target and projection share a matrix.

    Raises:
        ValueError: the heads don't divide d_model, or one matrix is to have two sizes.
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
        share_embeddings: bool = True,
    ) -> None:
        if share_embeddings and source_vocabulary != target_vocabulary:
            sizes = f"{source_vocabulary} and {target_vocabulary} tokens"
            raise ValueError(f"{sizes}: no one vocabulary; give share_embeddings=False")
        if d_model % heads:
            raise ValueError(f"{heads} heads don't divide d_model, {d_model}")

        def attention() -> MultiHeadAttention:
            return MultiHeadAttention(d_model, heads, d_model // heads, d_model // heads)

        def feed_forward() -> FeedForward:
            return FeedForward(d_model, d_ff)

        def add_norm() -> AddNorm:
            return AddNorm(d_model, dropout)

        target = source = Embedding(target_vocabulary, d_model, padding_idx)
        if not share_embeddings:
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
