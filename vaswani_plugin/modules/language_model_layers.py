"""The layers of a decoder-only Transformer: those of section 3.1 without an encoder to attend to.

Axes: B batch, T positions, D d_model, H heads.
"""

from torch import Tensor, nn

from vaswani_plugin.modules.attention import KeyValueCache
from vaswani_plugin.modules.layers import DecoderCache, EncoderLayer


class LanguageModelLayer(EncoderLayer):
    """Masked self-attention and a feed-forward network, each in the paper's sub-layer."""

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """One layer over all positions, or over the new ones where there is a cache.

        Args:
            x: (B, T, D).
            mask: boolean, broadcastable to (B, H, T, keys); None hides the future only.
            cache: keys and values of earlier positions; x's are appended.
            need_weights: return the weights (B, H, T, keys).

        Returns:
            (B, T, D) and the weights, None where they were not asked for.
        """
        attended, weights = self.self_attention(
            x,
            mask=mask,
            is_causal=mask is None and x.size(1) > 1,  # one new position sees all before it
            cache=cache,
            need_weights=need_weights,
        )
        x = self.self_attention_norm(x, attended)
        return self.feed_forward_norm(x, self.feed_forward(x)), weights


class LanguageModelStack(nn.ModuleList):
    """N layers, one after the other."""

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        cache: DecoderCache | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor]]:
        """Arguments as `LanguageModelLayer.forward`, with one cache for the whole stack.

        Returns:
            (B, T, D), and on request the weights (B, H, T, keys) of each layer.
        """
        collected = []
        for number, layer in enumerate(self):
            own = None
            if cache is not None:
                own = cache.setdefault(f"layers.{number}.self_attention", {})
            x, weights = layer(x, mask, own, need_weights)
            if weights is not None:
                collected.append(weights)
        return x, collected
