"""LSTM with attention: a stacked bidirectional encoder, and a decoder that attends to it."""

from functools import partial

import torch
from fairseq.models import register_model
from torch import Tensor

from vaswani_plugin.errors import UserError, value_errors_as_user_errors
from vaswani_plugin.fairseq_plugin.models._recurrent import RecurrentModel
from vaswani_plugin.fairseq_plugin.models._rows import register_rows
from vaswani_plugin.model.architectures import ATTENTION_LSTMS
from vaswani_plugin.model.configurations import AttentionLSTMConfig
from vaswani_plugin.modules.recurrent import (
    AdditiveAttention,
    DotAttention,
    MeanContext,
    RecurrentDecoder,
    RecurrentEncoder,
)

NAME = "vaswani_attention_lstm"

ATTENTIONS = {
    "dot": DotAttention,
    "scaled-dot": partial(DotAttention, scaled=True),
    "additive": AdditiveAttention,
    "mean": MeanContext,
}
"""Attention by the value of --attention; with "none" the decoder has the final states only."""


@register_model(NAME, dataclass=AttentionLSTMConfig)
class VaswaniAttentionLSTM(RecurrentModel):
    """The decoder starts from the final states of the encoder's two directions."""

    @staticmethod
    def make_layers(cfg: AttentionLSTMConfig) -> tuple[RecurrentEncoder, RecurrentDecoder]:
        """See `RecurrentModel`."""
        sizes, kind = (cfg.d_model, cfg.layers, cfg.dropout), str(cfg.attention)
        if kind == "none" and cfg.input_feeding:
            raise UserError("--input-feeding feeds attention back; --attention none has none")
        attention = ATTENTIONS[kind](cfg.d_model) if kind != "none" else None
        with value_errors_as_user_errors():
            encoder = RecurrentEncoder(*sizes, both_ways=True)
        return encoder, RecurrentDecoder(*sizes, attention, cfg.input_feeding)

    @torch.no_grad()
    def attention_weights(
        self, src_tokens: Tensor, prev_output_tokens: Tensor
    ) -> dict[str, list[Tensor]]:
        """The decoder's attention weights, for figures, in the layout of the Transformer's.

        Args:
            src_tokens: (B, S).
            prev_output_tokens: (B, T).

        Returns:
            `cross` [(B, 1, T, S)].

        Raises:
            UserError: the model was made with --attention none.
        """
        if self.decoder.attention is None:
            raise UserError("the model was trained with --attention none: it has no attention")
        _, extra = self.decoder(prev_output_tokens, self.encoder(src_tokens))
        return {"cross": [extra["attn"][0].unsqueeze(1)]}


register_rows(NAME, AttentionLSTMConfig, ATTENTION_LSTMS)
