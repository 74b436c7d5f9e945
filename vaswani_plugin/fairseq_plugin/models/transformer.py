"""The Transformer of the paper as a fairseq model (section 3, Figure 1).

In `modules` the batch comes first; here the encoder's output is (S, B, D), as fairseq has it.

Axes: B batch, S source length, T target length, D d_model, H heads, V vocabulary.
"""

from typing import Any

import numpy as np
from torch import Tensor

from vaswani_plugin.fairseq_plugin.configurations import configuration_of
from vaswani_plugin.fairseq_plugin.models import _common
from vaswani_plugin.fairseq_plugin.models._common import EncoderOut, IncrementalState
from vaswani_plugin.model.build import accelerated, build
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.model.families import PARSER, TRANSLATOR
from vaswani_plugin.modules.parser import ParserDecoder
from vaswani_plugin.modules.transformer import Decoder, Encoder, Memory


class VaswaniEncoder(Encoder, _common.SourceEncoder):
    """`modules.transformer.Encoder` as fairseq's models expect it."""

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        known_lengths: np.ndarray | None = None,
    ) -> EncoderOut:
        """Encode a batch `src_tokens` (B, S), padded on either side.

        `known_lengths` (B,) of the sentences are known without looking at the device: if none is
        shorter than S, no attention needs a mask. `src_lengths` are not needed.

        Returns `encoder_out` [(S, B, D)], `encoder_padding_mask` [(B, S), True at padding], or []
        if the lengths show that there is no padding, and `src_tokens` [(B, S)].
        """
        is_padded = known_lengths is None or bool(known_lengths.min() < src_tokens.size(1))
        features = super().forward(src_tokens, is_padded=is_padded).features
        return {
            "encoder_out": [features.transpose(0, 1)],  # (B, S, D) -> (S, B, D)
            "encoder_padding_mask": [src_tokens.eq(self.padding_idx)] if is_padded else [],
            "src_tokens": [src_tokens],
        }


class VaswaniDecoder(Decoder, _common.CausalDecoder):
    """`modules.transformer.Decoder` as fairseq's models expect it."""

    read = Decoder.forward  # for our search
    # Whether incremental decoding returns the attention to the source, for fairseq's alignments
    # and its replacing of unknown words. False saves the work.
    alignment_wanted = True

    def memory(self, encoder_out: EncoderOut) -> Memory:
        """Read the encoder's output as `modules` do, batch first."""
        features = encoder_out["encoder_out"][0].transpose(0, 1)  # (S, B, D) -> (B, S, D)
        padding = encoder_out["encoder_padding_mask"]
        mask = ~padding[0][:, None, None, :] if padding else None
        return self.remember(encoder_out["src_tokens"][0], features, mask)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: IncrementalState | None = None,
        features_only: bool = False,
        alignment_layer: int | None = None,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Predict each next token of the target shifted right (B, T).

        With the cache `incremental_state` only the T' positions not yet in it are computed. Returns
        logits (B, T', V), or features (B, T', D), and a dictionary of `attn` [(B, T', S)], of the
        layer `alignment_layer` or the last, or [None] if only features were requested.
        """
        if alignment_layer is None and not features_only:
            alignment_layer = len(self.layers) - 1
        if incremental_state is not None and not self.alignment_wanted:
            alignment_layer = None
        output = super().forward(
            prev_output_tokens,
            self.memory(encoder_out),
            cache=self.cache(incremental_state),
            right_padded=self.right_padded,
            alignment_layer=alignment_layer,
        )
        x, weights = output.features, output.cross_weights
        attention = weights[0].mean(dim=1) if alignment_layer is not None else None
        return (x if features_only else self.output_layer(x)), {"attn": [attention]}

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: EncoderOut, **options
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """`forward` without the projection: features (B, T', D), and the last layer's `attn`."""
        options.setdefault("alignment_layer", len(self.layers) - 1)
        return self(prev_output_tokens, encoder_out, features_only=True, **options)


class VaswaniParserDecoder(ParserDecoder, VaswaniDecoder):
    """`modules.parser.ParserDecoder` as fairseq's models expect it."""


@_common.registered(TRANSLATOR, PARSER)
class VaswaniTransformer(_common.TranslationModel):
    """Figure 1. `--arch` names a row of `vaswani_plugin/model/architectures.py`."""

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "VaswaniTransformer":
        """Build the model of a configuration; missing fields get their defaults."""
        cfg = configuration_of(cfg, Configuration)
        words = None
        if cfg.next_word and hasattr(task, "grammar"):
            words = task.grammar.ends_word, task.grammar.is_word
        source, target = task.source_dictionary, task.target_dictionary
        decoder = VaswaniParserDecoder if cfg.next_word else VaswaniDecoder
        built = build(cfg, source, target, words, VaswaniEncoder, decoder)
        for stack in (built.encoder, built.decoder):
            _common.set_training_switches(stack, cfg)
        return accelerated(cls.joined(built.encoder, built.decoder, cfg, task))
