"""The encoder (section 3.1, left half of Figure 1) at fairseq's border.

Axes: B batch, S source length, D d_model, H heads.
"""

from fairseq.models import FairseqEncoder
from torch import Tensor

from vaswani_plugin.models._parts import Parts, require_positions
from vaswani_plugin.modules.dropout import dropout
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.masks import neighbourhood_mask, padding_mask
from vaswani_plugin.modules.positions import position_ids


class VaswaniEncoder(FairseqEncoder):
    """Embeddings, positions and N layers (section 3.1, left half of Figure 1)."""

    def __init__(self, dictionary, embedding: Embedding, parts: Parts) -> None:
        super().__init__(dictionary)
        cfg = parts.cfg
        self.padding_idx = embedding.padding_idx
        self.dropout = cfg.dropout
        self.attention_window = cfg.attention_window
        self.max_source_positions = cfg.max_source_positions
        self.embedding = embedding
        self.positions = parts.positions(cfg.max_source_positions)
        self.layers = parts.encoder_stack()

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        need_weights: bool = False,
        **unused,
    ) -> dict[str, list[Tensor]]:
        """Encode a batch.

        Args:
            src_tokens: (B, S), padded on either side.
            src_lengths: not needed: padding is read off the tokens.
            need_weights: also return each layer's attention weights.

        Returns:
            `encoder_out` [(S, B, D)], `encoder_padding_mask` [(B, S), True at padding],
            `src_tokens` [(B, S)], and `attention` [(B, H, S, S) a layer] on request.

        Raises:
            ValueError: when S exceeds the positions of the model.
        """
        require_positions(src_tokens.size(1), self.max_source_positions, "source")
        padding = src_tokens.eq(self.padding_idx)
        x = self.embedding(src_tokens)
        x = x + self.positions(position_ids(src_tokens, self.padding_idx))
        x = dropout(x, self.dropout, self.training)
        x, weights = self.layers(x, self._mask(src_tokens, bool(padding.any())), need_weights)
        return {
            "encoder_out": [x.transpose(0, 1)],  # (B, S, D) -> (S, B, D)
            "encoder_padding_mask": [padding],
            "src_tokens": [src_tokens],
            "attention": weights,
        }

    def _mask(self, src_tokens: Tensor, has_padding: bool) -> Tensor | None:
        mask = padding_mask(src_tokens, self.padding_idx) if has_padding else None
        if self.attention_window:
            near = neighbourhood_mask(src_tokens.size(1), self.attention_window, src_tokens.device)
            mask = near if mask is None else mask & near
        return mask

    def reorder_encoder_out(
        self, encoder_out: dict[str, list[Tensor]], new_order: Tensor
    ) -> dict[str, list[Tensor]]:
        """Pick sentences: `new_order` (B',) numbers those of the batch to keep or repeat."""
        return {
            name: [x.index_select(1 if name == "encoder_out" else 0, new_order) for x in tensors]
            for name, tensors in encoder_out.items()
        }

    def max_positions(self) -> int:
        """Longest source in tokens, the end-of-sentence token included."""
        return self.max_source_positions
