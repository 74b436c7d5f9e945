"""Builds the modules of one configuration, for every model of ours."""

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from torch import nn

from vaswani_plugin.architectures import head_sizes
from vaswani_plugin.building.fairseq_positions import fairseq_sinusoids
from vaswani_plugin.building.sizes import TransformerSizes, check_sizes
from vaswani_plugin.errors import UserError
from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.feed_forward import FeedForward
from vaswani_plugin.modules.layers import AddNorm, DecoderLayer, EncoderLayer
from vaswani_plugin.modules.positions import LearnedPositions, SinusoidalPositions, sinusoids

Matrix = TypeVar("Matrix", bound=nn.Module)


class SizedDictionary(Protocol):
    """What the embeddings need of a dictionary, which is compared by its content."""

    def __len__(self) -> int:
        """Number of symbols."""

    def pad(self) -> int:
        """Number of padding."""


class ModuleParts:
    """Makes the modules of one model.

    Args:
        cfg: `TransformerSizes`, or a configuration with the same names.

    Raises:
        ValueError: when sizes don't fit together.
    """

    def __init__(self, cfg: TransformerSizes) -> None:
        self.cfg = cfg
        check_sizes(cfg)
        self.d_k, self.d_v = head_sizes(cfg)
        self.add_norm = partial(AddNorm, cfg.d_model, cfg.dropout, cfg.layer_norm_eps)

    def attention(self) -> MultiHeadAttention:
        cfg = self.cfg
        sizes = cfg.d_model, cfg.heads, self.d_k, self.d_v
        return MultiHeadAttention(*sizes, cfg.attention_dropout, cfg.attention_scale != "none")

    def feed_forward(self) -> FeedForward:
        return FeedForward(self.cfg.d_model, self.cfg.d_ff, self.cfg.activation_dropout)

    def positions(self, max_positions: int) -> nn.Module:
        if self.cfg.positions == "learned":
            return LearnedPositions(max_positions, self.cfg.d_model)
        fairseq_style = self.cfg.positions == "sinusoidal-fairseq"
        encoding = fairseq_sinusoids if fairseq_style else sinusoids
        return SinusoidalPositions(max_positions, self.cfg.d_model, encoding)

    def encoder_layer(self) -> EncoderLayer:
        return EncoderLayer(self.attention(), self.feed_forward(), self.add_norm)

    def decoder_layer(self) -> DecoderLayer:
        return DecoderLayer(self.attention(), self.attention(), self.feed_forward(), self.add_norm)

    def embedding(self, dictionary: SizedDictionary) -> Embedding:
        return Embedding(len(dictionary), self.cfg.d_model, dictionary.pad())


def shared_embeddings(
    share: str,
    source: SizedDictionary,
    target: SizedDictionary,
    make: Callable[[SizedDictionary], Matrix],
) -> tuple[Matrix, Matrix, Matrix]:
    """The matrices that embed source and target and that project (section 3.4).

    Args:
        share: "all" are one, "decoder": the target's two are, "none".
        source: dictionary.
        target: dictionary.
        make: a matrix V x D of a dictionary.

    Raises:
        UserError: when one matrix is to serve dictionaries that differ.
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


def require_positions(length: int, limit: int, side: str) -> None:
    """Refuse what has no position.

    Raises:
        UserError: when a sentence of `length` tokens exceeds the model's `limit`.
    """
    if length > limit:
        raise UserError(
            f"a {side} sentence has {length} tokens and the model {limit} positions; shorten it, "
            f"skip it with --skip-invalid-size-inputs-valid-test, or train with a larger "
            f"--max-{side}-positions"
        )
