"""The Transformer language model as a fairseq model.

Axes: B batch, T tokens, D d_model, H heads, V vocabulary.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from fairseq.data import Dictionary
from fairseq.models import FairseqLanguageModel, register_model
from torch import Tensor

from vaswani_plugin.fairseq_plugin.configurations import (
    VaswaniLanguageModelConfig,
    configuration_of,
    text_positions,
)
from vaswani_plugin.fairseq_plugin.models._common import (
    CausalDecoder,
    IncrementalState,
    ProjectedLoss,
    register_rows,
    set_training_switches,
)
from vaswani_plugin.model.build import accelerated, build_language_model
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.model.families import LANGUAGE_MODEL
from vaswani_plugin.modules.transformer import LanguageModel

Extra = dict[str, list[Tensor | None]]


class TextDecoder(CausalDecoder):
    """What our language models' decoders share."""

    trains_right_padded = True  # as fairseq's text datasets are

    def extract_features(
        self, src_tokens: Tensor, encoder_out: None = None, **options
    ) -> tuple[Tensor, Extra]:
        """`forward` without the projection: features (B, T', D), and the dictionary."""
        return self(src_tokens, features_only=True, **options)


class CausalLanguageModel(ProjectedLoss, FairseqLanguageModel):
    """A language model in which one matrix embeds and projects; a subclass builds its decoder."""

    build_decoder: ClassVar[Callable[[Any, Dictionary], TextDecoder]]

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "CausalLanguageModel":
        """Build the model of a configuration; missing fields get their defaults."""
        decoder = cls.build_decoder(cfg, task.source_dictionary)
        decoder.dictionary = task.source_dictionary
        return accelerated(cls(decoder))


class LanguageDecoder(LanguageModel, TextDecoder):
    """`modules.transformer.LanguageModel` as fairseq's models expect it."""

    read = LanguageModel.forward  # for our search

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        encoder_out: None = None,
        incremental_state: IncrementalState | None = None,
        features_only: bool = False,
    ) -> tuple[Tensor, Extra]:
        """Predict each next token; see `VaswaniDecoder.forward`.

        `src_tokens` is the text shifted right, (B, T), padded on either side.
        """
        x = super().forward(src_tokens, self.cache(incremental_state), self.right_padded).features
        return (x if features_only else self.output_layer(x)), {"attn": [None]}


@register_model(LANGUAGE_MODEL.model, dataclass=VaswaniLanguageModelConfig)
class VaswaniLanguageModel(CausalLanguageModel):
    """The right half of Figure 1 without attention to a source."""

    @staticmethod
    def build_decoder(cfg: Any, dictionary: Dictionary) -> TextDecoder:
        """See `build_language_model`."""
        limit = text_positions(cfg)
        cfg = configuration_of(cfg, Configuration, max_target_positions=limit)
        decoder: Any = build_language_model(cfg, dictionary, LanguageDecoder)
        decoder.max_target_positions = limit
        set_training_switches(decoder, cfg)
        return decoder


register_rows(LANGUAGE_MODEL)
