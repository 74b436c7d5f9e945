"""An LSTM that looks back: stacked Bi-LSTM encoder, and attention by dot product in the decoder."""

import torch
from fairseq.models import register_model
from torch import Tensor

from vaswani_plugin.architectures import ATTENTION_LSTMS
from vaswani_plugin.configurations import AttentionLSTMConfig
from vaswani_plugin.errors import modules_errors_as_user_errors
from vaswani_plugin.models._recurrent import RecurrentModel
from vaswani_plugin.models._rows import register_rows
from vaswani_plugin.modules.recurrent import DotAttention, RecurrentDecoder, RecurrentEncoder

NAME = "vaswani_attention_lstm"


@register_model(NAME, dataclass=AttentionLSTMConfig)
class VaswaniAttentionLSTM(RecurrentModel):
    """The decoder begins with the states in which the encoder's two directions end."""

    @staticmethod
    def make_layers(cfg: AttentionLSTMConfig) -> tuple[RecurrentEncoder, RecurrentDecoder]:
        """See `RecurrentModel`."""
        sizes = cfg.d_model, cfg.layers, cfg.dropout
        attention = DotAttention(cfg.d_model)
        with modules_errors_as_user_errors():
            encoder = RecurrentEncoder(*sizes, both_ways=True)
        return encoder, RecurrentDecoder(*sizes, attention, cfg.input_feeding)

    @torch.no_grad()
    def attention_weights(
        self, src_tokens: Tensor, prev_output_tokens: Tensor
    ) -> dict[str, list[Tensor]]:
        """The one attention there is, for pictures, in the layout of the Transformer's.

        Args:
            src_tokens: (B, S).
            prev_output_tokens: (B, T).

        Returns:
            `cross` [(B, 1, T, S)].
        """
        _, extra = self.decoder(prev_output_tokens, self.encoder(src_tokens))
        return {"cross": [extra["attn"][0].unsqueeze(1)]}


register_rows(NAME, AttentionLSTMConfig, ATTENTION_LSTMS)
