"""The encoder (section 3.1, left half of Figure 1) with fairseq's interface.

Axes: B batch, S source length, D d_model, H heads.
"""

import numpy as np
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder
from torch import Tensor

from vaswani_plugin.fairseq_plugin.models._parts import Parts
from vaswani_plugin.model.parts import may_be_padded, require_positions
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.transformer import Encoder

SEQUENCE_FIRST = ("encoder_out", "encoder_states")
"""Entries of the encoder's output whose batch is the second axis."""


class _FairseqEncoder(FairseqEncoder):
    def __init__(self) -> None:
        super().__init__(dictionary=None)  # set by the subclass


class VaswaniEncoder(Encoder, _FairseqEncoder):
    """`modules.transformer.Encoder` as fairseq's models expect it."""

    def __init__(self, dictionary: Dictionary, embedding: Embedding, parts: Parts) -> None:
        cfg = parts.cfg
        layers = (parts.encoder_layer() for _ in range(cfg.encoder_layers))
        positions = parts.positions(cfg.max_source_positions)
        super().__init__(embedding, positions, layers, cfg.dropout, cfg.attention_window)
        self.dictionary = dictionary
        self.max_source_positions = cfg.max_source_positions
        parts.set_training_switches(self)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        need_weights: bool = False,
        known_lengths: np.ndarray | None = None,
    ) -> dict[str, list[Tensor]]:
        """Encode a batch.

        Args:
            src_tokens: (B, S), padded on either side.
            src_lengths: not needed: padding is read off the tokens.
            return_all_hiddens: also return the first layer's input and each layer's output.
            token_embeddings: (B, S, D), used instead of the rows of the embedding matrix.
            need_weights: also return each layer's attention weights.
            known_lengths: lengths of the sentences (B,), known without looking at the device. If
                none is shorter than S, no attention needs a mask.

        Returns:
            `encoder_out` [(S, B, D)], `encoder_padding_mask` [(B, S), True at padding], or [] if
            the lengths show that there is no padding, `src_tokens` [(B, S)], and on request
            `encoder_states` [(S, B, D) of the first layer's input and each layer's output] and
            `attention` [(B, H, S, S) of each layer].

        Raises:
            UserError: when S exceeds the positions of the model.
        """
        require_positions(src_tokens.size(1), self.max_source_positions, "source")
        embedded = None
        if token_embeddings is not None:
            embedded = self.embedding.scale * token_embeddings
        is_padded = may_be_padded(src_tokens.size(1), known_lengths)
        output = super().forward(src_tokens, need_weights, embedded, is_padded)
        states = output.states if return_all_hiddens else []
        return {
            "encoder_out": [output.features.transpose(0, 1)],  # (B, S, D) -> (S, B, D)
            "encoder_padding_mask": [src_tokens.eq(self.padding_idx)] if is_padded else [],
            "src_tokens": [src_tokens],
            "encoder_states": [x.transpose(0, 1) for x in states],
            "attention": output.self_weights,
        }

    def reorder_encoder_out(
        self, encoder_out: dict[str, list[Tensor]], new_order: Tensor
    ) -> dict[str, list[Tensor]]:
        """Select the sentences `new_order` (B',) of the batch; an index may occur repeatedly."""
        return {
            name: [x.index_select(int(name in SEQUENCE_FIRST), new_order) for x in tensors]
            for name, tensors in encoder_out.items()
        }

    def max_positions(self) -> int:
        """Longest source in tokens, the end-of-sentence token included."""
        return self.max_source_positions
