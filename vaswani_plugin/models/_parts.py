"""Builds the modules of one configuration, for every model of ours."""

import os
import shutil
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from vaswani_plugin.architectures import head_sizes
from vaswani_plugin.configurations import VaswaniTransformerConfig, check_sizes
from vaswani_plugin.errors import UserError
from vaswani_plugin.models._fairseq_positions import fairseq_sinusoids
from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.feed_forward import FeedForward
from vaswani_plugin.modules.layers import AddNorm, DecoderLayer, EncoderLayer
from vaswani_plugin.modules.parser import NextWord
from vaswani_plugin.modules.positions import LearnedPositions, SinusoidalPositions, sinusoids
from vaswani_plugin.modules.transformer import Stack


class Parts:
    """Makes the modules of one configuration.

    Args:
        cfg: complete, see `completed`.

    Raises:
        ValueError: when sizes don't fit together.
    """

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

    def encoder_layer(self) -> EncoderLayer:
        return EncoderLayer(self.attention(), self.feed_forward(), self.add_norm)

    def decoder_layer(self) -> DecoderLayer:
        return DecoderLayer(self.attention(), self.attention(), self.feed_forward(), self.add_norm)

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

    def set_training_switches(self, stack: Stack) -> None:
        """Run the layers of a stack as --checkpoint-activations and --compile say, in training."""
        run = _call
        if self.cfg.compile:
            run = torch.compile(run, dynamic=True)
        if self.cfg.checkpoint_activations:
            run = partial(checkpoint, run, use_reentrant=False)
        stack.run_layer = None if run is _call else run


def _call(layer: nn.Module, *arguments: Any) -> Any:
    return layer(*arguments)


def require_compiler(cfg: VaswaniTransformerConfig) -> None:
    """Refuse to train with --compile where PyTorch would find no C++ compiler.

    Raises:
        UserError: names the compiler that is missing.
    """
    compiler = os.environ.get("CXX", "g++")
    if cfg.compile and not shutil.which(compiler):
        raise UserError(
            f"--compile needs a C++ compiler and there is no {compiler}; install one, name "
            f"it in the variable CXX, or train without --compile"
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
