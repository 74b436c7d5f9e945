"""The Transformer of the paper as a fairseq model (section 3, Figure 1).

Inside, the batch comes first; at fairseq's border the encoder's output is (S, B, D), so
that fairseq's generator, scorer and ensembles work with it.

Axes: B batch, S source length, T target length, D d_model, H heads, V vocabulary.
"""

import torch
from fairseq.models import FairseqEncoderDecoderModel, register_model
from torch import Tensor

from vaswani_plugin.architectures import ARCHITECTURES, PARSERS
from vaswani_plugin.configurations import VaswaniTransformerConfig
from vaswani_plugin.models._configuration import completed, shared_embeddings
from vaswani_plugin.models._decoder import VaswaniDecoder
from vaswani_plugin.models._encoder import VaswaniEncoder
from vaswani_plugin.models._parts import Parts
from vaswani_plugin.models._rows import register_rows
from vaswani_plugin.modules.embedding import Embedding


@register_model("vaswani_transformer", dataclass=VaswaniTransformerConfig)
class VaswaniTransformer(FairseqEncoderDecoderModel):
    """Figure 1. `--arch` names a row of `vaswani_plugin/architectures.py`."""

    @classmethod
    def build_model(cls, cfg: VaswaniTransformerConfig, task) -> "VaswaniTransformer":
        """Build the model of a configuration.

        Raises:
            ValueError: when sizes don't fit, or all embeddings are to be shared between
                differing dictionaries.
        """
        parts = Parts(completed(cfg, VaswaniTransformerConfig))
        source, target = task.source_dictionary, task.target_dictionary
        of_source, of_target, projection = shared_embeddings(
            cfg.share_embeddings,
            source,
            target,
            lambda dictionary: Embedding(len(dictionary), cfg.d_model, dictionary.pad()),
        )
        encoder = VaswaniEncoder(source, of_source, parts)
        next_word = parts.next_word(task) if parts.cfg.next_word else None
        return cls(encoder, VaswaniDecoder(target, of_target, projection, parts, next_word))

    @property
    def projection_weight(self) -> Tensor:
        """The rows of the pre-softmax projection (V, D), for a loss that projects itself."""
        return self.decoder.projection.weight

    @torch.no_grad()
    def attention_weights(
        self, src_tokens: Tensor, prev_output_tokens: Tensor
    ) -> dict[str, list[Tensor]]:
        """The three attentions of section 3.2.3, for pictures.

        Args:
            src_tokens: (B, S).
            prev_output_tokens: (B, T).

        Returns:
            A tensor a layer: `encoder` (B, H, S, S), `decoder` (B, H, T, T) and `cross`
            (B, H, T, S).
        """
        encoder_out = self.encoder(src_tokens, need_weights=True)
        _, extra = self.decoder(prev_output_tokens, encoder_out, need_weights=True)
        return {
            "encoder": encoder_out["attention"],
            "decoder": extra["self_attention"],
            "cross": extra["cross_attention"],
        }


register_rows("vaswani_transformer", VaswaniTransformerConfig, (*ARCHITECTURES, *PARSERS))
