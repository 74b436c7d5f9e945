"""The recurrent ancestors as fairseq models: deep LSTMs, without and with attention.

In `vaswani_seq2seq_lstm` (Sutskever et al. 2014) the decoder gets only the encoder's final states.
As in that paper the source is read backwards, so that its first words are near the first words of
the translation. (Its end-of-sentence token is then read first; the decoder's input begins with one,
too.) `vaswani_attention_lstm` has a stacked bidirectional encoder and a decoder with attention.

Axes: B batch, S source length, T target length, D d_model, N layers, V vocabulary.
"""

from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.models import register_model
from torch import Tensor, nn

from vaswani_plugin.fairseq_plugin.configurations import (
    AttentionLSTMConfig,
    Seq2SeqLSTMConfig,
    configuration_of,
)
from vaswani_plugin.fairseq_plugin.models._common import (
    CausalDecoder,
    EncoderOut,
    IncrementalState,
    SourceEncoder,
    TranslationModel,
    register_rows,
)
from vaswani_plugin.model.ancestors import (
    AttentionLSTMConfiguration,
    RecurrentConfiguration,
    Seq2SeqConfiguration,
)
from vaswani_plugin.model.architectures import ATTENTION_LSTMS, SEQ2SEQ_LSTMS
from vaswani_plugin.model.build import accelerated
from vaswani_plugin.model.build_ancestors import build_recurrent
from vaswani_plugin.modules.recurrent import (
    RecurrentMemory,
    SourceReader,
    TargetReader,
    initialize_uniformly,
)

CACHE = "recurrent"


class LSTMEncoder(SourceReader, SourceEncoder):
    """`modules.recurrent.SourceReader` as fairseq's models expect it."""

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


class LSTMDecoder(TargetReader, CausalDecoder):
    """`modules.recurrent.TargetReader` as fairseq's models expect it."""

    batch_axis = 1

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: IncrementalState | None = None,
        features_only: bool = False,
        src_lengths: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Predict each next token; see `VaswaniDecoder.forward`.

        If `incremental_state` holds a state, only the last token is read.
        """
        cache = (incremental_state or {}).get(CACHE)
        tokens, state, fed = prev_output_tokens, None, None
        if cache is not None:
            tokens, state = prev_output_tokens[:, -1:], (cache["h"], cache["c"])
            fed = cache["output"].transpose(0, 1)
        padding = encoder_out["encoder_padding_mask"]
        memory = RecurrentMemory(
            encoder_out["encoder_out"][0].transpose(0, 1),
            padding[0] if padding else None,
            tuple(encoder_out["state"]),
        )
        is_ordered = tokens.size(1) == 1 or self.right_padded
        outputs, weights, state = self.read(tokens, memory, state, fed, is_ordered)
        if incremental_state is not None:
            incremental_state[CACHE] = {
                **{"h": state[0], "c": state[1]},
                "output": outputs[:, -1:].transpose(0, 1),  # (1, B, D)
            }
        outputs = F.dropout(outputs, self.dropout, self.training)
        return (outputs if features_only else self.project(outputs)), {"attn": [weights]}

    @property
    def attention(self) -> nn.Module | None:
        """The attention to the source, or None; fairseq's LSTM has it under the same name."""
        return self.layers.attention


class RecurrentModel(TranslationModel):
    """An LSTM encoder and an LSTM decoder; a subclass says which."""

    configuration: ClassVar[type[RecurrentConfiguration]]

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "RecurrentModel":
        """Build the model of a configuration; missing fields get their defaults."""
        cfg = configuration_of(cfg, cls.configuration)
        dictionaries = task.source_dictionary, task.target_dictionary
        built = build_recurrent(cfg, *dictionaries, LSTMEncoder, LSTMDecoder)
        model = cls.joined(built.encoder, built.decoder, cfg, task)
        initialize_uniformly(model)
        return accelerated(model)


@register_model("vaswani_seq2seq_lstm", dataclass=Seq2SeqLSTMConfig)
class VaswaniSeq2SeqLSTM(RecurrentModel):
    """The decoder starts from the final h and c of every encoder layer."""

    configuration = Seq2SeqConfiguration


@register_model("vaswani_attention_lstm", dataclass=AttentionLSTMConfig)
class VaswaniAttentionLSTM(RecurrentModel):
    """The decoder starts from the final states of the encoder's two directions."""

    configuration = AttentionLSTMConfiguration


register_rows("vaswani_seq2seq_lstm", SEQ2SEQ_LSTMS)
register_rows("vaswani_attention_lstm", ATTENTION_LSTMS)
