"""The Transformer language model as a fairseq model.

Axes: B batch, T tokens, D d_model, H heads, V vocabulary.
"""

from typing import Any, ClassVar

from fairseq.models import FairseqLanguageModel
from torch import Tensor

from vaswani_plugin.fairseq_plugin.configurations import configuration_of
from vaswani_plugin.fairseq_plugin.models import _common
from vaswani_plugin.model.build import accelerated
from vaswani_plugin.model.families import LANGUAGE_MODEL, Family
from vaswani_plugin.modules.transformer import DecoderOnly, Stack

Extra = dict[str, list[Tensor | None]]


class TextDecoder(_common.CausalDecoder):
    """What our language models' decoders share."""

    trains_right_padded = True  # as fairseq's text datasets are

    def extract_features(
        self, src_tokens: Tensor, encoder_out: None = None, **options
    ) -> tuple[Tensor, Extra]:
        """`forward` without the projection: features (B, T', D), and the dictionary."""
        return self(src_tokens, features_only=True, **options)


class CausalLanguageModel(_common.ProjectedLoss, FairseqLanguageModel):
    """A language model in which one matrix embeds and projects; a subclass has its decoder."""

    family: ClassVar[Family]
    kind: ClassVar[type[TextDecoder]]

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "CausalLanguageModel":
        """Build it; it has --max-target-positions, or else as many as a sample has tokens."""
        limit = {}
        if "max_target_positions" in cls.family.configuration.__dataclass_fields__:
            sample = cfg.tokens_per_sample + bool(cfg.add_bos_token)
            limit["max_target_positions"] = cfg.max_target_positions or sample
        cfg = configuration_of(cfg, cls.family.configuration, **limit)
        decoder = cls.family.build(cfg, None, task.source_dictionary, kind=cls.kind)
        vars(decoder).update(limit, dictionary=task.source_dictionary)
        if isinstance(decoder, Stack):
            _common.set_training_switches(decoder, cfg)
        return accelerated(cls(decoder))


class LanguageDecoder(DecoderOnly, TextDecoder):
    """`modules.transformer.DecoderOnly` as fairseq's models expect it."""

    read = DecoderOnly.forward  # for our search

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        encoder_out: None = None,
        incremental_state: _common.IncrementalState | None = None,
        features_only: bool = False,
    ) -> tuple[Tensor, Extra]:
        """See `VaswaniDecoder.forward`; the text (B, T) is shifted right, padded on either side."""
        x = super().forward(src_tokens, self.cache(incremental_state), self.right_padded).features
        return (x if features_only else self.output_layer(x)), {"attn": [None]}


@_common.registered(LANGUAGE_MODEL)
class VaswaniLanguageModel(CausalLanguageModel):
    """The right half of Figure 1 without attention to a source."""

    kind = LanguageDecoder
