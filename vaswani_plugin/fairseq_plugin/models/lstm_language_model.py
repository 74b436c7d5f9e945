"""The LSTM language model as a fairseq model.

Axes: B batch, T tokens, E width of the embeddings, H units of a layer, V vocabulary.
"""

import argparse
import sys

from fairseq.data import Dictionary
from fairseq.models import FairseqLanguageModel, register_model
from torch import Tensor

from vaswani_plugin.errors import value_errors_as_user_errors
from vaswani_plugin.fairseq_plugin.defaults import (
    RECURRENT_LANGUAGE_MODEL_VALUES,
    set_recurrent_defaults,
)
from vaswani_plugin.fairseq_plugin.models._causal_decoder import CausalDecoder, IncrementalState
from vaswani_plugin.fairseq_plugin.models._language_decoder import require_one_dictionary
from vaswani_plugin.fairseq_plugin.models._own import ProjectedLoss
from vaswani_plugin.fairseq_plugin.models._rows import register_rows
from vaswani_plugin.model.acceleration import accelerated
from vaswani_plugin.model.architectures import LSTM_LANGUAGE_MODELS
from vaswani_plugin.model.configurations import RecurrentLanguageModelConfig
from vaswani_plugin.model.sizes import check_dropouts
from vaswani_plugin.modules.recurrent import reading_order, reordered
from vaswani_plugin.modules.recurrent_language_model import (
    Dropouts,
    RecurrentLanguageModel,
    States,
)

UNLIMITED = sys.maxsize
DROPOUTS = ("dropout", "hidden_dropout", "input_dropout", "word_dropout", "weight_dropout")
"""Names in the configuration, in the order of `Dropouts`."""


class LSTMLanguageDecoder(RecurrentLanguageModel, CausalDecoder):
    """`modules.recurrent_language_model.RecurrentLanguageModel` as fairseq's models expect it."""

    trains_right_padded = True  # as fairseq's text datasets are
    max_target_positions = UNLIMITED

    def __init__(self, dictionary: Dictionary, cfg: RecurrentLanguageModelConfig) -> None:
        check_dropouts(cfg, DROPOUTS)
        dropouts = Dropouts(*(getattr(cfg, name) for name in DROPOUTS))
        sizes = cfg.d_model, cfg.units, cfg.layers
        with value_errors_as_user_errors():
            super().__init__(len(dictionary), dictionary.pad(), *sizes, dropouts)
        self.dictionary = dictionary

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        encoder_out: None = None,
        incremental_state: IncrementalState | None = None,
        features_only: bool = False,
    ) -> tuple[Tensor, dict[str, list[None]]]:
        """Predict each next token.

        Args:
            src_tokens: (B, T), the text shifted right, padded on either side.
            src_lengths: not needed: padding is read off the tokens.
            encoder_out: not needed: there is no encoder.
            incremental_state: the layers' states; if it holds any, only the last token is read.
            features_only: stop before the projection.

        Returns:
            Logits (B, T', V), or features (B, T', E), where T' is the number of computed
            positions, and fairseq's dictionary of extras.
        """
        states = states_in(incremental_state)
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

    def extract_features(
        self, src_tokens: Tensor, **options
    ) -> tuple[Tensor, dict[str, list[None]]]:
        """`forward` without the projection: features (B, T', E), and the dictionary."""
        return self(src_tokens, features_only=True, **options)


def states_in(incremental_state: IncrementalState | None) -> States | None:
    """The layers' states in fairseq's cache, or None where it is empty."""
    if not incremental_state:
        return None
    return [(cache["h"], cache["c"]) for cache in incremental_state.values()]


@register_model("vaswani_lm_lstm", dataclass=RecurrentLanguageModelConfig)
class LSTMLanguageModel(ProjectedLoss, FairseqLanguageModel):
    """The model of `--arch vaswani_lm_lstm`; one matrix embeds and projects."""

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        """Add the model's flags, with its limit of the gradient's norm as the default."""
        super().add_args(parser)
        set_recurrent_defaults(parser, RECURRENT_LANGUAGE_MODEL_VALUES)

    @classmethod
    def build_model(cls, cfg: RecurrentLanguageModelConfig, task) -> "LSTMLanguageModel":
        """Build the model of a configuration.

        Args:
            cfg: the configuration.
            task: has the dictionary.

        Raises:
            ValueError: when a size or a dropout is out of range.
        """
        require_one_dictionary(task)
        return accelerated(cls(LSTMLanguageDecoder(task.source_dictionary, cfg)))


register_rows("vaswani_lm_lstm", RecurrentLanguageModelConfig, LSTM_LANGUAGE_MODELS)
