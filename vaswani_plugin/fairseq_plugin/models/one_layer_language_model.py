"""The one-layer language model of the lecture notes as a fairseq model.

Axes: B batch, T tokens, D d_embedding, V vocabulary.
"""

import torch.nn.functional as F
from fairseq.models import FairseqDecoder, FairseqLanguageModel, register_model
from torch import Tensor

from vaswani_plugin.errors import value_errors_as_user_errors
from vaswani_plugin.fairseq_plugin.models._language_decoder import (
    position_limit,
    require_language_positions,
    require_one_dictionary,
)
from vaswani_plugin.fairseq_plugin.models._own import ProjectedLoss
from vaswani_plugin.fairseq_plugin.models._rows import register_rows
from vaswani_plugin.model.acceleration import accelerated
from vaswani_plugin.model.architectures import ONE_LAYER
from vaswani_plugin.model.configurations import OneLayerConfig
from vaswani_plugin.model.sizes import check_dropouts
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.masks import causal_mask, padding_mask
from vaswani_plugin.modules.one_layer import OneLayer
from vaswani_plugin.modules.positions import SinusoidalPositions, add_positions, position_ids


class OneLayerDecoder(FairseqDecoder):
    """Computes logits from words; `modules/one_layer.py` has the formulas."""

    def __init__(self, dictionary, cfg: OneLayerConfig) -> None:
        check_dropouts(cfg, ("dropout",))
        super().__init__(dictionary)
        self.padding_idx = dictionary.pad()
        self.dropout = cfg.dropout
        self.limit = position_limit(cfg)
        self.embedding = Embedding(len(dictionary), cfg.d_model, self.padding_idx)
        with value_errors_as_user_errors():
            self.positions = SinusoidalPositions(self.limit, cfg.d_model)
            sizes = cfg.d_model, cfg.d_hidden, cfg.d_ff
            self.layer = OneLayer(*sizes, projections=not cfg.no_projections)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        features_only: bool = False,
    ) -> tuple[Tensor, dict[str, list[None]]]:
        """Predict each next word.

        Args:
            src_tokens: (B, T), the text shifted right, padded on either side.
            src_lengths: not needed: padding is read off the tokens.
            features_only: stop before the projection.

        Returns:
            Logits (B, T, V), or features O (B, T, D), and fairseq's dictionary of extras.

        Raises:
            UserError: when T exceeds the positions of the model.
        """
        length = src_tokens.size(1)
        require_language_positions(length, self.limit)
        words = F.embedding(src_tokens, self.embedding.weight, padding_idx=self.padding_idx)
        x = add_positions(words, self.positions(position_ids(src_tokens, self.padding_idx)))
        mask = causal_mask(length, length, device=src_tokens.device)
        mask = mask & padding_mask(src_tokens, self.padding_idx)[:, 0]  # (B, T, T)
        x = F.dropout(x, self.dropout, self.training)
        features = self.layer(x, mask, self.dropout)
        return (features if features_only else self.output_layer(features)), {"attn": [None]}

    def extract_features(
        self, src_tokens: Tensor, encoder_out: None = None
    ) -> tuple[Tensor, dict[str, list[None]]]:
        """`forward` without the projection: features (B, T, D), and fairseq's dictionary."""
        return self(src_tokens, features_only=True)

    def output_layer(self, features: Tensor) -> Tensor:
        """Project features O (..., D) to logits O E^T (..., V)."""
        return self.embedding.project(features)

    def max_positions(self) -> int:
        """Longest text in tokens."""
        return self.limit


@register_model("vaswani_lm_one_layer", dataclass=OneLayerConfig)
class OneLayerLanguageModel(ProjectedLoss, FairseqLanguageModel):
    """The model of `--arch vaswani_lm_one_layer`; the lecture notes give no sizes."""

    @classmethod
    def build_model(cls, cfg: OneLayerConfig, task) -> "OneLayerLanguageModel":
        """Build the model of a configuration.

        Args:
            cfg: the configuration.
            task: has the dictionary.

        Raises:
            ValueError: when a size is below 1, --d-model is odd, or --dropout is out of range.
        """
        require_one_dictionary(task)
        return accelerated(cls(OneLayerDecoder(task.source_dictionary, cfg)))


register_rows("vaswani_lm_one_layer", OneLayerConfig, ONE_LAYER)
