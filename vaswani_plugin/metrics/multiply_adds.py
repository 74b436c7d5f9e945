"""Training cost by counting: every multiply-add of every matrix product, forward and backward.

Axes: B sentences, S source positions, T target positions, D d_model, F d_ff, H heads, K d_k,
V d_v or vocabulary. Padded and masked positions are multiplied too, so they are counted; positions
outside a window are not. Sums, softmax, LayerNorm and dropout are not counted: they are about 1%.
"""

from dataclasses import dataclass
from typing import Protocol

FLOPS_OF_MULTIPLY_ADD = 2
TRAINING_PASSES = 3
"""One product forward and two backward, for the gradients of its two factors."""


@dataclass(frozen=True)
class Positions:
    """Sums over the sentences of a batch, which determine its cost.

    source: of S; target: of T; source_pairs: of S^2; target_pairs: of T^2; cross_pairs: of S T;
    predicted: of the target positions in the loss (all T, unless only part of a text is learned).
    """

    source: int
    target: int
    source_pairs: int
    target_pairs: int
    cross_pairs: int
    predicted: int

    @classmethod
    def uniform(cls, sentences: int, source: int, target: int) -> "Positions":
        """The sums of `sentences` sentences with equal lengths."""
        s, t = sentences * source, sentences * target
        return cls(s, t, s * source, t * target, s * target, t)


@dataclass(frozen=True)
class TransformerSizes:
    """The sizes that determine the cost of a Transformer; vocabulary: rows of the projection.

    A model without encoder layers is a language model and has no encoder-decoder attention. With
    `next_word`, a parser's decoder receives a projection of the next word. With a `window` of r, a
    position attends to 2 r - 1 positions, as in `modules/restricted.py`.
    """

    d_model: int
    d_ff: int
    encoder_layers: int
    decoder_layers: int
    heads: int
    d_k: int
    d_v: int
    vocabulary: int
    next_word: bool = False
    window: int = 0

    def multiply_adds(self, batch: Positions) -> dict[str, int]:
        """Multiply-adds of the forward pass, by part of the model, for sentences of any lengths."""
        d, heads = self.d_model, self.heads
        # A query position takes W^Q (D x H K) and W^O (H V x D), a key position W^K and W^V.
        projections = d * heads * (self.d_k + self.d_v)
        weights_and_sums = heads * (self.d_k + self.d_v)  # Q K^T, then the weights times V
        feed_forward = 2 * d * self.d_ff
        encoder, decoder = self.encoder_layers, self.decoder_layers
        cross = decoder if encoder else 0
        crossing = batch.source + batch.target
        source_pairs, target_pairs = batch.source_pairs, batch.target_pairs
        if self.window:
            seen = 2 * self.window - 1
            source_pairs = min(source_pairs, batch.source * seen)
            target_pairs = min(target_pairs, batch.target * seen)
        return {
            "encoder self-attention, projections": encoder * batch.source * 2 * projections,
            "encoder self-attention, Eq. 1": encoder * source_pairs * weights_and_sums,
            "encoder feed-forward": encoder * batch.source * feed_forward,
            "decoder self-attention, projections": decoder * batch.target * 2 * projections,
            "decoder self-attention, Eq. 1": decoder * target_pairs * weights_and_sums,
            "encoder-decoder attention, projections": cross * crossing * projections,
            "encoder-decoder attention, Eq. 1": cross * batch.cross_pairs * weights_and_sums,
            "decoder feed-forward": decoder * batch.target * feed_forward,
            "projection to the vocabulary": batch.predicted * d * self.vocabulary,
            **({"projection of words": batch.source * d * d} if self.next_word else {}),
        }


@dataclass(frozen=True)
class OneLayerSizes:
    """The sizes that determine the cost of the lecture notes' one-layer language model.

    d_hidden: H. Without `projections`, attention compares and averages the embeddings themselves.
    """

    d_model: int
    d_hidden: int
    d_ff: int
    vocabulary: int
    projections: bool

    def multiply_adds(self, batch: Positions) -> dict[str, int]:
        """Multiply-adds of the forward pass, by part of the model; the text is the target."""
        d, hidden = self.d_model, self.d_hidden
        return {
            "Q, K and V": 3 * self.projections * batch.target * d * hidden,
            "M = Q K^T and h": 2 * batch.target_pairs * hidden,
            "W_1 and W_2": batch.target * self.d_ff * (hidden + d),
            "projection to the vocabulary": batch.predicted * d * self.vocabulary,
        }


class Sizes(Protocol):
    """The sizes that determine the cost of a model of any kind."""

    def multiply_adds(self, batch: Positions) -> dict[str, int]:
        """Multiply-adds of the forward pass, by part of the model."""


def forward_multiply_adds(sizes: Sizes, sentences: int, source: int, target: int) -> dict[str, int]:
    """Multiply-adds of the forward pass of one batch, by part of the model.

    Args:
        sizes: of the model.
        sentences: B.
        source: S, padding included.
        target: T, padding included.

    Raises:
        ValueError: a number below 1.
    """
    for name, value in (("sentences", sentences), ("source", source), ("target", target)):
        if value < 1:
            raise ValueError(f"a batch with {name} {value}: it must be at least 1")
    return sizes.multiply_adds(Positions.uniform(sentences, source, target))


def training_flops(sizes: Sizes, sentences: int, source: int, target: int) -> int:
    """FLOPs of one training batch, forward and backward; arguments as above."""
    return training_flops_of(sizes, Positions.uniform(sentences, source, target))


def training_flops_of(sizes: Sizes, batch: Positions) -> int:
    """FLOPs of training on sentences of any lengths, forward and backward."""
    forward = sum(sizes.multiply_adds(batch).values())
    return FLOPS_OF_MULTIPLY_ADD * TRAINING_PASSES * forward
