"""Parts of a fairseq model that depend on its task or on the switches of training."""

import os
import shutil
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from vaswani_plugin.errors import UserError
from vaswani_plugin.model.configurations import VaswaniTransformerConfig
from vaswani_plugin.model.parts import ModuleParts
from vaswani_plugin.modules.parser import NextWord
from vaswani_plugin.modules.transformer import Stack


class Parts(ModuleParts):
    """Builds modules from a complete fairseq configuration; see `completed`."""

    cfg: VaswaniTransformerConfig

    def next_word(self, task) -> NextWord:
        """The module that gives a parser's decoder the next word of the source.

        Raises:
            UserError: when the task's target has no symbols that stand for words.
        """
        if not hasattr(task, "ends_word"):
            raise UserError("--next-word is for --task vaswani_parsing: no other counts words")
        source = task.source_dictionary
        words = task.ends_word, task.is_word
        return NextWord(self.cfg.d_model, *words, source.pad(), source.eos())

    def set_training_switches(self, stack: Stack) -> None:
        """Apply --checkpoint-activations and --compile to the layers of a stack, in training."""
        run = _call
        if self.cfg.compile:
            run = torch.compile(run, dynamic=True)
        if self.cfg.checkpoint_activations:
            run = partial(checkpoint, run, use_reentrant=False)
        stack.run_layer = None if run is _call else run


def _call(layer: nn.Module, *arguments: Any) -> Any:
    return layer(*arguments)


def require_compiler(cfg: VaswaniTransformerConfig) -> None:
    """Refuse to train with --compile if PyTorch would find no C++ compiler.

    Raises:
        UserError: names the compiler that is missing.
    """
    compiler = os.environ.get("CXX", "g++")
    if cfg.compile and not shutil.which(compiler):
        raise UserError(
            f"--compile needs a C++ compiler and there is no {compiler}; install one, name "
            f"it in the variable CXX, or train without --compile"
        )
