"""The language models as fairseq models: Transformer, one layer of the lecture notes, LSTM.

Axes: B batch, T tokens, D d_model, H heads, V vocabulary.
"""

import sys
from collections.abc import Callable
from typing import Any, ClassVar

from fairseq.data import Dictionary
from fairseq.models import FairseqLanguageModel, register_model
from torch import Tensor

from vaswani_plugin.fairseq_plugin.configurations import (
    OneLayerConfig,
    RecurrentLanguageModelConfig,
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
from vaswani_plugin.model.ancestors import (
    OneLayerConfiguration,
    RecurrentLanguageModelConfiguration,
)
from vaswani_plugin.model.architectures import LANGUAGE_MODELS, LSTM_LANGUAGE_MODELS, ONE_LAYER
from vaswani_plugin.model.build import accelerated, build_language_model
from vaswani_plugin.model.build_ancestors import build_one_layer, build_recurrent_language_model
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.modules.one_layer import OneLayerLanguageModel
from vaswani_plugin.modules.recurrent import reading_order, reordered
from vaswani_plugin.modules.recurrent_language_model import RecurrentLanguageModel
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


class TextModel(ProjectedLoss, FairseqLanguageModel):
    """A language model in which one matrix embeds and projects; a subclass builds its decoder."""

    build_decoder: ClassVar[Callable[[Any, Dictionary], TextDecoder]]

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "TextModel":
        """Build the model of a configuration; missing fields get their defaults."""
        decoder = cls.build_decoder(cfg, task.source_dictionary)
        decoder.dictionary = task.source_dictionary
        return accelerated(cls(decoder))


class LanguageDecoder(LanguageModel, TextDecoder):
    """`modules.language_model.LanguageModel` as fairseq's models expect it."""

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


@register_model("vaswani_lm", dataclass=VaswaniLanguageModelConfig)
class VaswaniLanguageModel(TextModel):
    """The right half of Figure 1 without attention to a source."""

    @staticmethod
    def build_decoder(cfg: VaswaniLanguageModelConfig, dictionary: Dictionary) -> LanguageDecoder:
        """See `build_language_model`."""
        limit = text_positions(cfg)
        cfg = configuration_of(cfg, Configuration, max_target_positions=limit)
        decoder = build_language_model(cfg, dictionary, LanguageDecoder)
        decoder.max_target_positions = limit
        set_training_switches(decoder, cfg)
        return decoder


class OneLayerDecoder(OneLayerLanguageModel, TextDecoder):
    """`modules.one_layer.OneLayerLanguageModel` as fairseq's models expect it."""

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, features_only: bool = False
    ) -> tuple[Tensor, Extra]:
        """Predict each next word; see `LanguageDecoder.forward`. There is no cache."""
        features = super().forward(src_tokens)
        return (features if features_only else self.output_layer(features)), {"attn": [None]}


@register_model("vaswani_lm_one_layer", dataclass=OneLayerConfig)
class OneLayerModel(TextModel):
    """The model of `--arch vaswani_lm_one_layer`; the lecture notes give no sizes."""

    @staticmethod
    def build_decoder(cfg: OneLayerConfig, dictionary: Dictionary) -> OneLayerDecoder:
        """See `build_one_layer`."""
        limit = text_positions(cfg)
        cfg = configuration_of(cfg, OneLayerConfiguration, max_target_positions=limit)
        decoder = build_one_layer(cfg, dictionary, OneLayerDecoder)
        decoder.max_target_positions = limit
        return decoder


class LSTMLanguageDecoder(RecurrentLanguageModel, TextDecoder):
    """`modules.recurrent_language_model.RecurrentLanguageModel` as fairseq's models expect it."""

    max_target_positions = sys.maxsize

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        encoder_out: None = None,
        incremental_state: IncrementalState | None = None,
        features_only: bool = False,
    ) -> tuple[Tensor, Extra]:
        """Predict each next token; see `LanguageDecoder.forward`.

        If `incremental_state` holds the layers' states, only the last token is read.
        """
        cached = (incremental_state or {}).values()
        states = [(cache["h"], cache["c"]) for cache in cached] or None
        tokens = src_tokens if states is None else src_tokens[:, -1:]
        order = None
        if tokens.size(1) > 1 and not self.right_padded:  # padding may be on either side
            order = reading_order(tokens.eq(self.padding_idx))
            tokens = tokens.gather(1, order)
        features, states = self.read(tokens, states)
        if order is not None:
            features = reordered(features, order.argsort(dim=1))
        if incremental_state is not None:
            for number, (h, c) in enumerate(states):
                incremental_state[f"layer {number}"] = {"h": h, "c": c}
        return (features if features_only else self.output_layer(features)), {"attn": [None]}


@register_model("vaswani_lm_lstm", dataclass=RecurrentLanguageModelConfig)
class LSTMLanguageModel(TextModel):
    """The model of `--arch vaswani_lm_lstm`."""

    @staticmethod
    def build_decoder(cfg: RecurrentLanguageModelConfig, dictionary: Dictionary) -> TextDecoder:
        """See `build_recurrent_language_model`."""
        cfg = configuration_of(cfg, RecurrentLanguageModelConfiguration)
        return build_recurrent_language_model(cfg, dictionary, LSTMLanguageDecoder)


register_rows("vaswani_lm", LANGUAGE_MODELS)
register_rows("vaswani_lm_one_layer", ONE_LAYER)
register_rows("vaswani_lm_lstm", LSTM_LANGUAGE_MODELS)
