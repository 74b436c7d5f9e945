"""What the decoders of translation and language model share: tokens in, logits out, no future.

Axes: B batch, T tokens, D d_model, V vocabulary.
"""

from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor

from vaswani_plugin.models._parts import Parts
from vaswani_plugin.modules.dropout import dropout
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.masks import causal_mask, padding_mask
from vaswani_plugin.modules.positions import position_ids


class CausalDecoder(FairseqIncrementalDecoder):
    """Embeddings, positions, masks, projection and cache; a subclass adds its layers."""

    def __init__(
        self, dictionary, embedding: Embedding, projection: Embedding, parts: Parts, limit: int
    ) -> None:
        super().__init__(dictionary)
        self.padding_idx = embedding.padding_idx
        self.dropout = parts.cfg.dropout
        self.attention_window = parts.cfg.attention_window
        self.max_target_positions = limit
        self.embedding = embedding
        self.projection = projection
        self.positions = parts.positions(limit)
        self.weights_are_final = False

    def make_generation_fast_(self, **unused) -> None:
        """fairseq's commands call this before they generate: the weights don't change any more."""
        self.weights_are_final = True

    def embed(self, tokens: Tensor, past: int = 0, also: Tensor | None = None) -> Tensor:
        """Embeddings and positions.

        Args:
            tokens: (B, T).
            past: this many first tokens are left out.
            also: what is added to them, (B, T - past, D).

        Returns:
            (B, T - past, D).
        """
        positions = position_ids(tokens, self.padding_idx)[:, past:]
        x = self.embedding(tokens[:, past:]) + self.positions(positions)
        x = x if also is None else x + also
        return dropout(x, self.dropout, self.training)

    def self_mask(self, tokens: Tensor, past: int) -> Tensor | None:
        """None where plain causality says it all; else (T', T) or (B, 1, T', T)."""
        length = tokens.size(1)
        left_padded = bool(tokens[:, 0].eq(self.padding_idx).any())
        if not (self.attention_window or left_padded or (past and length - past > 1)):
            return None
        mask = causal_mask(length - past, length, self.attention_window, tokens.device)
        return mask & padding_mask(tokens, self.padding_idx) if left_padded else mask

    def output_layer(self, features: Tensor) -> Tensor:
        """(..., D) -> logits (..., V)."""
        return self.projection.project(features)

    def reorder_incremental_state(
        self, incremental_state: dict[str, dict[str, Tensor]], new_order: Tensor
    ) -> None:
        """Let every cache follow the beams: row i becomes what row `new_order[i]` was."""
        for cache in incremental_state.values():
            for name, tensor in cache.items():
                cache[name] = tensor.index_select(0, new_order)

    def max_positions(self) -> int:
        """Longest sequence in tokens, the end-of-sentence token included."""
        return self.max_target_positions


def cached_positions(incremental_state: dict[str, dict[str, Tensor]] | None) -> int:
    """Positions that a cache holds; 0 where there is none."""
    if not incremental_state:
        return 0
    return incremental_state["layers.0.self_attention"]["key"].size(2)
