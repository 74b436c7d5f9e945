"""Builds the modules of one configuration, for encoder and decoder alike."""

from functools import partial

from torch import nn

from vaswani_plugin.architectures import head_sizes
from vaswani_plugin.configurations import VaswaniTransformerConfig, check_sizes
from vaswani_plugin.errors import UserError
from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.feed_forward import FeedForward
from vaswani_plugin.modules.language_model_layers import LanguageModelLayer, LanguageModelStack
from vaswani_plugin.modules.layers import (
    AddNorm,
    DecoderLayer,
    DecoderStack,
    EncoderLayer,
    EncoderStack,
    Layer,
)
from vaswani_plugin.modules.next_word import NextWord
from vaswani_plugin.modules.positions import (
    LearnedPositions,
    SinusoidalPositions,
    fairseq_sinusoids,
    sinusoids,
)


class Parts:
    """Makes modules of one configuration."""

    def __init__(self, cfg: VaswaniTransformerConfig) -> None:
        self.cfg = cfg
        check_sizes(cfg)
        self.d_k, self.d_v = head_sizes(cfg)
        self.add_norm = partial(AddNorm, cfg.d_model, cfg.dropout, cfg.layer_norm_eps)

    def attention(self) -> MultiHeadAttention:
        cfg = self.cfg
        return MultiHeadAttention(cfg.d_model, cfg.heads, self.d_k, self.d_v, cfg.attention_dropout)

    def feed_forward(self) -> FeedForward:
        return FeedForward(self.cfg.d_model, self.cfg.d_ff, self.cfg.activation_dropout)

    def positions(self, max_positions: int) -> nn.Module:
        if self.cfg.positions == "learned":
            return LearnedPositions(max_positions, self.cfg.d_model)
        fairseq_style = self.cfg.positions == "sinusoidal-fairseq"
        encoding = fairseq_sinusoids if fairseq_style else sinusoids
        return SinusoidalPositions(max_positions, self.cfg.d_model, encoding)

    def next_word(self, task) -> NextWord:
        """What tells a parser's decoder its place.

        Raises:
            UserError: when the task's target has no symbols that stand for words.
        """
        if not hasattr(task, "ends_word"):
            raise UserError("--next-word is for --task vaswani_parsing: no other counts words")
        source = task.source_dictionary
        return NextWord(
            self.cfg.d_model,
            task.ends_word,
            task.is_word,
            source.pad(),
            source.eos(),
        )

    def _layer(self, layer: Layer) -> Layer:
        layer.recompute = self.cfg.checkpoint_activations
        if self.cfg.compile:
            layer.compile(dynamic=True)
        return layer

    def encoder_stack(self) -> EncoderStack:
        return EncoderStack(
            self._layer(EncoderLayer(self.attention(), self.feed_forward(), self.add_norm))
            for _ in range(self.cfg.encoder_layers)
        )

    def decoder_stack(self) -> DecoderStack:
        return DecoderStack(
            self._layer(
                DecoderLayer(self.attention(), self.attention(), self.feed_forward(), self.add_norm)
            )
            for _ in range(self.cfg.decoder_layers)
        )

    def language_model_stack(self) -> LanguageModelStack:
        return LanguageModelStack(
            self._layer(LanguageModelLayer(self.attention(), self.feed_forward(), self.add_norm))
            for _ in range(self.cfg.decoder_layers)
        )


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
