"""Training cost by counting: every multiply-add of every matrix product, forward and backward.

Axes: B sentences, S source positions, T target positions, D d_model, F d_ff, H heads, K d_k,
V d_v or vocabulary. What padding fills and what a mask hides is multiplied all the same, and so is
counted. Sums, softmax, LayerNorm and dropout are not: they are about one in a hundred.
"""

from dataclasses import dataclass

FLOPS_OF_MULTIPLY_ADD = 2
TRAINING_PASSES = 3
"""Forward, and backward the same product twice: for the gradients of its two factors."""


@dataclass(frozen=True)
class TransformerSizes:
    """What decides on the cost of a Transformer; vocabulary: rows of the projection."""

    d_model: int
    d_ff: int
    encoder_layers: int
    decoder_layers: int
    heads: int
    d_k: int
    d_v: int
    vocabulary: int


def forward_multiply_adds(
    sizes: TransformerSizes, sentences: int, source: int, target: int
) -> dict[str, int]:
    """Multiply-adds of one batch, forward, by the part of the model.

    Args:
        sizes: of the model.
        sentences: B.
        source: S, padding included.
        target: T, padding included.

    Raises:
        ValueError: a batch without anything in it.
    """
    for name, value in (("sentences", sentences), ("source", source), ("target", target)):
        if value < 1:
            raise ValueError(f"a batch with {name} {value}: it must be at least 1")
    d, heads = sizes.d_model, sizes.heads
    # A query position takes W^Q (D x H K) and W^O (H V x D), a key position W^K and W^V.
    projections = d * heads * (sizes.d_k + sizes.d_v)
    weights_and_sums = heads * (sizes.d_k + sizes.d_v)  # Q K^T, then the weights times V
    feed_forward = 2 * d * sizes.d_ff
    encoder, decoder = sentences * sizes.encoder_layers, sentences * sizes.decoder_layers
    return {
        "encoder self-attention, projections": encoder * source * 2 * projections,
        "encoder self-attention, Eq. 1": encoder * source * source * weights_and_sums,
        "encoder feed-forward": encoder * source * feed_forward,
        "decoder self-attention, projections": decoder * target * 2 * projections,
        "decoder self-attention, Eq. 1": decoder * target * target * weights_and_sums,
        "encoder-decoder attention, projections": decoder * (target + source) * projections,
        "encoder-decoder attention, Eq. 1": decoder * target * source * weights_and_sums,
        "decoder feed-forward": decoder * target * feed_forward,
        "projection to the vocabulary": sentences * target * d * sizes.vocabulary,
    }


def training_flops(sizes: TransformerSizes, sentences: int, source: int, target: int) -> int:
    """FLOPs of one training batch, forward and backward; arguments as above."""
    forward = sum(forward_multiply_adds(sizes, sentences, source, target).values())
    return FLOPS_OF_MULTIPLY_ADD * TRAINING_PASSES * forward
