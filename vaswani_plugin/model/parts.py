"""Builds the modules of our models from a configuration."""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
from torch import nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.model.architectures import head_sizes
from vaswani_plugin.model.fairseq_positions import fairseq_sinusoids
from vaswani_plugin.model.sizes import TransformerSizes, check_sizes
from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.feed_forward import FeedForward
from vaswani_plugin.modules.layers import AddNorm, DecoderLayer, EncoderLayer
from vaswani_plugin.modules.positions import LearnedPositions, SinusoidalPositions, sinusoids

Matrix = TypeVar("Matrix", bound=nn.Module)


class SizedDictionary(Protocol):
    """The part of a dictionary that embeddings need. `==` compares two by their content."""

    def __len__(self) -> int:
        """Number of symbols."""

    def pad(self) -> int:
        """Number of the padding symbol."""


class ModuleParts:
    """Makes the modules of one model.

    Args:
        cfg: `TransformerSizes`, or a configuration with the same names.

    Raises:
        UserError: see `check_sizes` and `head_sizes`.
    """

    def __init__(self, cfg: TransformerSizes) -> None:
        self.cfg = cfg
        check_sizes(cfg)
        self.d_k, self.d_v = head_sizes(cfg)
        self.add_norm = partial(AddNorm, cfg.d_model, cfg.dropout, cfg.layer_norm_eps)

    def attention(self) -> MultiHeadAttention:
        """Section 3.2.2."""
        cfg = self.cfg
        sizes = cfg.d_model, cfg.heads, self.d_k, self.d_v
        return MultiHeadAttention(*sizes, cfg.attention_dropout, cfg.attention_scale != "none")

    def feed_forward(self) -> FeedForward:
        """Section 3.3."""
        return FeedForward(self.cfg.d_model, self.cfg.d_ff, self.cfg.activation_dropout)

    def positions(self, max_positions: int) -> nn.Module:
        """Section 3.5, with a table of `max_positions` rows: (B, T) numbers -> (B, T, D)."""
        if self.cfg.positions == "learned":
            return LearnedPositions(max_positions, self.cfg.d_model)
        fairseq_style = self.cfg.positions == "sinusoidal-fairseq"
        encoding = fairseq_sinusoids if fairseq_style else sinusoids
        return SinusoidalPositions(max_positions, self.cfg.d_model, encoding)

    def encoder_layer(self) -> EncoderLayer:
        """Section 3.1; also the layer of a language model."""
        return EncoderLayer(self.attention(), self.feed_forward(), self.add_norm)

    def decoder_layer(self) -> DecoderLayer:
        """Section 3.1."""
        return DecoderLayer(self.attention(), self.attention(), self.feed_forward(), self.add_norm)

    def embedding(self, dictionary: SizedDictionary) -> Embedding:
        """Section 3.4, with a row for each symbol of the dictionary."""
        return Embedding(len(dictionary), self.cfg.d_model, dictionary.pad())


def shared_embeddings(
    share: str,
    source: SizedDictionary,
    target: SizedDictionary,
    make: Callable[[SizedDictionary], Matrix],
) -> tuple[Matrix, Matrix, Matrix]:
    """Make the matrices of the source's embedding, the target's and the projection (section 3.4).

    Args:
        share: "all": one matrix for the three; "decoder": one for target and projection; "none".
        source: the source's dictionary.
        target: the target's dictionary.
        make: makes the matrix (V, D) of a dictionary.

    Returns:
        The three matrices; shared ones are the same object.

    Raises:
        UserError: when `share` is "all" and the dictionaries differ.
    """
    if share == "all" and source != target:
        raise UserError(
            "the source and target dictionaries differ, so one matrix can't serve both; "
            "binarize with --joined-dictionary, or give --share-embeddings decoder"
        )
    of_target = make(target)
    of_source = of_target if share == "all" else make(source)
    projection = make(target) if share == "none" else of_target
    return of_source, of_target, projection


def may_be_padded(length: int, known_lengths: np.ndarray | None) -> bool:
    """Return whether a batch may have padding, without looking at its tokens.

    Args:
        length: positions of the batch, S.
        known_lengths: lengths of its sentences, (B,); None where they are not known.
    """
    return known_lengths is None or bool(known_lengths.min() < length)


def require_positions(length: int, limit: int, side: str) -> None:
    """Check that a model has a position for every token of a sentence.

    Args:
        length: of the sentence, in tokens.
        limit: positions of the model.
        side: "source" or "target", for the message.

    Raises:
        UserError: when `length` exceeds `limit`.
    """
    if length > limit:
        raise UserError(
            f"a {side} sentence has {length} tokens and the model {limit} positions; shorten it, "
            f"skip it with --skip-invalid-size-inputs-valid-test, or train with a larger "
            f"--max-{side}-positions"
        )
