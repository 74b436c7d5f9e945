"""The Transformer of the paper as a fairseq model (section 3, Figure 1).

In `modules` the batch comes first; here the encoder's output is (S, B, D), as fairseq's
generator, scorer and ensembles expect it.

Axes: B batch, S source length, T target length, D d_model, H heads, V vocabulary.
"""

import numpy as np
import torch
from fairseq.models import FairseqEncoderDecoderModel, register_model
from torch import Tensor

from vaswani_plugin.fairseq_plugin.models._causal_decoder import pads_right
from vaswani_plugin.fairseq_plugin.models._configuration import completed
from vaswani_plugin.fairseq_plugin.models._decoder import VaswaniDecoder
from vaswani_plugin.fairseq_plugin.models._encoder import VaswaniEncoder
from vaswani_plugin.fairseq_plugin.models._hub import FromPretrained
from vaswani_plugin.fairseq_plugin.models._own import PaperModel
from vaswani_plugin.fairseq_plugin.models._parts import Parts
from vaswani_plugin.fairseq_plugin.models._rows import register_rows
from vaswani_plugin.model.acceleration import accelerated
from vaswani_plugin.model.architectures import ARCHITECTURES, PARSERS
from vaswani_plugin.model.configurations import VaswaniTransformerConfig
from vaswani_plugin.model.parts import shared_embeddings


@register_model("vaswani_transformer", dataclass=VaswaniTransformerConfig)
class VaswaniTransformer(FromPretrained, PaperModel, FairseqEncoderDecoderModel):
    """Figure 1. `--arch` names a row of `vaswani_plugin/model/architectures.py`.

    Attributes:
        takes_known_lengths: the sources' lengths may be given to `forward` and to the encoder.
    """

    takes_known_lengths = True

    @classmethod
    def build_model(cls, cfg: VaswaniTransformerConfig, task) -> "VaswaniTransformer":
        """Build the model of a configuration.

        Args:
            cfg: the configuration; missing fields get their defaults.
            task: has the two dictionaries.

        Raises:
            ValueError: when sizes don't fit, or all embeddings are to be shared between
                different dictionaries.
        """
        cfg = completed(cfg, VaswaniTransformerConfig)
        parts = Parts(cfg)
        source, target = task.source_dictionary, task.target_dictionary
        of_source, of_target, projection = shared_embeddings(
            cfg.share_embeddings, source, target, parts.embedding
        )
        encoder = VaswaniEncoder(source, of_source, parts)
        next_word = parts.next_word(task) if cfg.next_word else None
        right = pads_right(task)
        decoder = VaswaniDecoder(target, of_target, projection, parts, next_word, right)
        return accelerated(cls(encoder, decoder, cfg))

    def __init__(
        self, encoder: VaswaniEncoder, decoder: VaswaniDecoder, cfg: VaswaniTransformerConfig
    ) -> None:
        super().__init__(encoder, decoder)
        self.cfg = cfg

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        return_all_hiddens: bool = False,
        features_only: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
        known_lengths: np.ndarray | None = None,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Predict each next token; see `VaswaniEncoder.forward` and `VaswaniDecoder.forward`."""
        encoder_out = self.encoder(
            src_tokens, src_lengths, return_all_hiddens, known_lengths=known_lengths
        )
        return self.decoder(
            prev_output_tokens,
            encoder_out,
            features_only=features_only,
            alignment_layer=alignment_layer,
            alignment_heads=alignment_heads,
            return_all_hiddens=return_all_hiddens,
        )

    def extract_features(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        **options,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """`forward` without the projection: features (B, T, D), and the dictionary."""
        encoder_out = self.encoder(src_tokens, src_lengths)
        return self.decoder.extract_features(prev_output_tokens, encoder_out, **options)

    @torch.no_grad()
    def attention_weights(
        self, src_tokens: Tensor, prev_output_tokens: Tensor
    ) -> dict[str, list[Tensor]]:
        """The weights of the three attentions of section 3.2.3, for figures.

        Args:
            src_tokens: (B, S).
            prev_output_tokens: (B, T).

        Returns:
            One tensor per layer: `encoder` (B, H, S, S), `decoder` (B, H, T, T) and `cross`
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
