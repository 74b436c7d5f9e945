"""The recurrent and one-layer models as fairseq models.

Axes: B batch, S source length, T target length, D d_model, N layers, V vocabulary.
"""

import sys
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.ancestors import families, recurrent
from vaswani_plugin.ancestors.one_layer import OneLayerLanguageModel
from vaswani_plugin.ancestors.recurrent_language_model import RecurrentLanguageModel
from vaswani_plugin.fairseq_plugin.configurations import configuration_of
from vaswani_plugin.fairseq_plugin.models import _common, language_models
from vaswani_plugin.fairseq_plugin.models._common import EncoderOut, IncrementalState
from vaswani_plugin.fairseq_plugin.models.language_models import Extra, TextDecoder
from vaswani_plugin.model.build import accelerated
from vaswani_plugin.model.families import Family

CACHE = "recurrent"


class LSTMEncoder(recurrent.SourceReader, _common.SourceEncoder):
    """`recurrent.SourceReader` as fairseq's models expect it."""

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        known_lengths: np.ndarray | None = None,
    ) -> EncoderOut:
        """Encode a batch; see `VaswaniEncoder.forward`. Without `known_lengths` the host waits.

        The output also has `state` [h, c], each (N, B, D): the final states of each sentence.
        """
        lengths = None if known_lengths is None else torch.as_tensor(known_lengths, device="cpu")
        memory = self.read(src_tokens, lengths)
        return {
            "encoder_out": [memory.states.transpose(0, 1)],  # (B, S, D) -> (S, B, D)
            "encoder_padding_mask": [] if memory.padding is None else [memory.padding],
            "state": list(memory.final),
        }


class LSTMDecoder(recurrent.TargetReader, _common.CausalDecoder):
    """`recurrent.TargetReader` as fairseq's models expect it."""

    batch_axis = 1

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: IncrementalState | None = None,
        features_only: bool = False,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """See `VaswaniDecoder.forward`; after a cached state, only the last token is read."""
        cache = (incremental_state or {}).get(CACHE)
        tokens, state, fed = prev_output_tokens, None, None
        if cache is not None:
            tokens, state = prev_output_tokens[:, -1:], (cache["h"], cache["c"])
            fed = cache["output"].transpose(0, 1)
        padding = encoder_out["encoder_padding_mask"]
        memory = recurrent.RecurrentMemory(
            encoder_out["encoder_out"][0].transpose(0, 1),
            padding[0] if padding else None,
            (encoder_out["state"][0], encoder_out["state"][1]),
        )
        is_ordered = tokens.size(1) == 1 or self.right_padded
        outputs, weights, state = self.read(tokens, memory, state, fed, is_ordered)
        if incremental_state is not None:
            incremental_state[CACHE] = {
                "h": state[0],
                "c": state[1],
                "output": outputs[:, -1:].transpose(0, 1),  # (1, B, D)
            }
        outputs = F.dropout(outputs, self.dropout, self.training)
        return (outputs if features_only else self.project(outputs)), {"attn": [weights]}

    @property
    def attention(self) -> nn.Module | None:
        """The attention to the source, or None; fairseq's LSTM has it under the same name."""
        return self.layers.attention


class LSTMTranslationModel(_common.TranslationModel):
    """An LSTM encoder and an LSTM decoder; a subclass says which."""

    family: ClassVar[Family]

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "LSTMTranslationModel":
        """Build the model of a configuration; missing fields get their defaults."""
        cfg = configuration_of(cfg, cls.family.configuration)
        dictionaries = task.source_dictionary, task.target_dictionary
        built = cls.family.build(cfg, *dictionaries, encoder=LSTMEncoder, decoder=LSTMDecoder)
        model = cls.joined(built.encoder, built.decoder, cfg, task)
        recurrent.initialize_uniformly(model)
        return accelerated(model)


@_common.registered(families.SEQ2SEQ_LSTM)
class VaswaniSeq2SeqLSTM(LSTMTranslationModel):
    """The decoder starts from the final h and c of every encoder layer."""


@_common.registered(families.ATTENTION_LSTM)
class VaswaniAttentionLSTM(LSTMTranslationModel):
    """The decoder starts from the final states of the encoder's two directions."""


class OneLayerDecoder(OneLayerLanguageModel, TextDecoder):
    """`one_layer.OneLayerLanguageModel` as fairseq's models expect it."""

    def forward(
        self, src_tokens: Tensor, features_only: bool = False, **unused: Any
    ) -> tuple[Tensor, Extra]:
        """Predict each next word; see `LanguageDecoder.forward`. No cache is read."""
        features = super().forward(src_tokens)
        return (features if features_only else self.output_layer(features)), {"attn": [None]}


@_common.registered(families.ONE_LAYER)
class OneLayerModel(language_models.CausalLanguageModel):
    """The model of `--arch vaswani_lm_one_layer`; the lecture notes give no sizes."""

    kind = OneLayerDecoder


class LSTMLanguageDecoder(RecurrentLanguageModel, TextDecoder):
    """`RecurrentLanguageModel` as fairseq's models expect it."""

    max_target_positions = sys.maxsize

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        encoder_out: None = None,
        incremental_state: IncrementalState | None = None,
        features_only: bool = False,
    ) -> tuple[Tensor, Extra]:
        """See `LanguageDecoder.forward`; after cached states, only the last token is read."""
        cached = (incremental_state or {}).values()
        states = [(cache["h"], cache["c"]) for cache in cached] or None
        tokens = src_tokens if states is None else src_tokens[:, -1:]
        order = None
        if tokens.size(1) > 1 and not self.right_padded:  # padding may be on either side
            order = recurrent.reading_order(tokens.eq(self.padding_idx))
            tokens = tokens.gather(1, order)
        features, states = self.read(tokens, states)
        if order is not None:
            features = recurrent.reordered(features, order.argsort(dim=1))
        if incremental_state is not None:
            for number, (h, c) in enumerate(states):
                incremental_state[f"layer {number}"] = {"h": h, "c": c}
        return (features if features_only else self.output_layer(features)), {"attn": [None]}


@_common.registered(families.LSTM_LANGUAGE_MODEL)
class LSTMLanguageModel(language_models.CausalLanguageModel):
    """The model of `--arch vaswani_lm_lstm`."""

    kind = LSTMLanguageDecoder
