"""The Transformer as a language model: the decoder of Figure 1 without cross-attention.

Axes: B batch, T tokens, D d_model, V vocabulary.
"""

from torch import Tensor

from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.masks import past_mask
from vaswani_plugin.modules.transformer import Cache, Output, Stack, cached_positions, layer_cache


class LanguageModel(Stack):
    """Layers of self-attention under a causal mask; one matrix embeds and projects."""

    def __init__(self, embedding: Embedding, *others, **options) -> None:
        super().__init__(embedding, *others, **options)
        self.projection = embedding

    def forward(
        self,
        tokens: Tensor,
        cache: Cache | None = None,
        right_padded: bool = False,
        need_weights: bool = False,
    ) -> Output:
        """Compute the features of each next token, given texts shifted right.

        Args:
            tokens: the texts, shifted right, (B, T).
            cache, right_padded, need_weights: see `Decoder.forward`.
        """
        past = cached_positions(cache)
        mask = past_mask(tokens, self.padding_idx, past, self.window, right_padded)
        x = self.embed(tokens, past)
        all_weights, states = [], [x]
        for number, layer in enumerate(self.layers):
            own = layer_cache(cache, number, "self")
            x, weights = self.run(layer, x, mask, mask is None, own, need_weights)
            states.append(x)
            all_weights += [weights] if need_weights else []
        return Output(x, all_weights, [], states)

    def project(self, features: Tensor) -> Tensor:
        """(..., D) -> logits (..., V)."""
        return self.projection.project(features)
