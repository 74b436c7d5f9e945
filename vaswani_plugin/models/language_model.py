"""The decoder-only Transformer as a fairseq language model.

Axes: B batch, T tokens, V vocabulary.
"""

import argparse

from fairseq.models import FairseqLanguageModel, register_model
from torch import Tensor

from vaswani_plugin.architectures import LANGUAGE_MODELS
from vaswani_plugin.building.acceleration import accelerated
from vaswani_plugin.configurations import VaswaniLanguageModelConfig
from vaswani_plugin.models._configuration import completed
from vaswani_plugin.models._language_decoder import (
    LanguageDecoder,
    position_limit,
    require_one_dictionary,
)
from vaswani_plugin.models._parts import Parts, require_compiler
from vaswani_plugin.models._rows import register_rows
from vaswani_plugin.models._stock_flags import refuse_stock_flags
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.loss import projected_loss


@register_model("vaswani_lm", dataclass=VaswaniLanguageModelConfig)
class VaswaniLanguageModel(FairseqLanguageModel):
    """The right half of Figure 1 without attention to a source; one matrix embeds and projects."""

    projected_loss = staticmethod(projected_loss)
    """Projects features and computes their loss, for a criterion."""

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        """Add the model's flags; refuse those of fairseq's Transformer and name ours instead."""
        super().add_args(parser)
        refuse_stock_flags(parser)

    @classmethod
    def build_model(cls, cfg: VaswaniLanguageModelConfig, task) -> "VaswaniLanguageModel":
        """Build the model of a configuration.

        Args:
            cfg: the configuration; missing fields get their defaults.
            task: has the dictionary.

        Raises:
            ValueError: when sizes don't fit, or inputs and outputs have different dictionaries.
        """
        require_one_dictionary(task)
        cfg = completed(cfg, VaswaniLanguageModelConfig)
        dictionary = task.source_dictionary
        embedding = Embedding(len(dictionary), cfg.d_model, dictionary.pad())
        decoder = LanguageDecoder(dictionary, embedding, Parts(cfg), position_limit(cfg))
        return accelerated(cls(decoder, cfg))

    def __init__(self, decoder: LanguageDecoder, cfg: VaswaniLanguageModelConfig) -> None:
        super().__init__(decoder)
        self.cfg = cfg

    def train(self, mode: bool = True) -> "VaswaniLanguageModel":
        """Set training or evaluation mode, as `torch.nn.Module.train` does.

        Raises:
            UserError: when the layers are to be compiled and there is no C++ compiler.
        """
        if mode:
            require_compiler(self.cfg)
        return super().train(mode)

    @property
    def projection_weight(self) -> Tensor:
        """The rows of the pre-softmax projection (V, D), for a loss that projects itself."""
        return self.decoder.projection.weight


register_rows("vaswani_lm", VaswaniLanguageModelConfig, LANGUAGE_MODELS)
