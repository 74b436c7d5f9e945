"""Sequence to sequence with deep LSTMs (Sutskever et al. 2014), without attention.

The decoder gets only the encoder's final states. As in that paper the source is read backwards, so
that its first words are near the first words of the translation. (Its end-of-sentence token is
then read first; the decoder's input begins with one, too.)
"""

from fairseq.models import register_model

from vaswani_plugin.fairseq_plugin.models._recurrent import RecurrentModel
from vaswani_plugin.fairseq_plugin.models._rows import register_rows
from vaswani_plugin.model.architectures import SEQ2SEQ_LSTMS
from vaswani_plugin.model.configurations import Seq2SeqLSTMConfig
from vaswani_plugin.modules.recurrent import RecurrentDecoder, RecurrentEncoder

NAME = "vaswani_seq2seq_lstm"


@register_model(NAME, dataclass=Seq2SeqLSTMConfig)
class VaswaniSeq2SeqLSTM(RecurrentModel):
    """The decoder starts from the final h and c of every encoder layer."""

    @staticmethod
    def make_layers(cfg: Seq2SeqLSTMConfig) -> tuple[RecurrentEncoder, RecurrentDecoder]:
        """See `RecurrentModel`."""
        sizes = cfg.d_model, cfg.layers, cfg.dropout
        encoder = RecurrentEncoder(*sizes, reverse=not cfg.no_reverse_source)
        return encoder, RecurrentDecoder(*sizes)


register_rows(NAME, Seq2SeqLSTMConfig, SEQ2SEQ_LSTMS)
