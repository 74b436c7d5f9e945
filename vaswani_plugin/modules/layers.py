"""Encoder and decoder layers (section 3.1) and Eq. 2 (section 3.3).

Axes: B batch, S source length, T target length, D d_model, H heads.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.modules.attention import KeysAndValues, MultiHeadAttention, Window

LAYER_NORM_EPS = 1e-6
"""The authors' code; the paper names none."""


class FeedForward(nn.Module):
    """Eq. 2: FFN(x) = max(0, x W_1 + b_1) W_2 + b_2.

    The initial weights are nn.Linear's own, uniform in [-a, a] with a = 1/sqrt(inputs). With the
    larger weights of Xavier's initialization, a post-norm model starts to learn much later.

    Args:
        d_model: width of input and output.
        d_ff: width of the hidden layer.
        dropout: probability of dropping a hidden unit (0 in the paper).
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        hidden = F.relu(self.w_1(x))
        return self.w_2(F.dropout(hidden, self.dropout, self.training))


class AddNorm(nn.Module):
    """The end of every sub-layer: LayerNorm(x + Dropout(Sublayer(x))), sections 3.1 and 5.4.

    Args:
        d_model: width.
        dropout: P_drop.
        eps: added to the variance.
    """

    def __init__(self, d_model: int, dropout: float, eps: float = LAYER_NORM_EPS) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm = nn.LayerNorm(d_model, eps=eps)

    def before(self, x: Tensor) -> Tensor:
        """Return what the sub-layer reads, (B, T, D): x itself."""
        return x

    def forward(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        """Two (B, T, D) -> (B, T, D)."""
        return self.norm(x + F.dropout(sublayer_output, self.dropout, self.training))


class PreNorm(nn.Module):
    """Pre-norm, the later default of tensor2tensor: x + Dropout(Sublayer(LayerNorm(x))).

    For the arguments see `AddNorm`. A stack of such layers ends with one more LayerNorm.
    """

    def __init__(self, d_model: int, dropout: float, eps: float = LAYER_NORM_EPS) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm = nn.LayerNorm(d_model, eps=eps)

    def before(self, x: Tensor) -> Tensor:
        """Return what the sub-layer reads, (B, T, D): LayerNorm(x)."""
        return self.norm(x)

    def forward(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        """Two (B, T, D) -> (B, T, D)."""
        return x + F.dropout(sublayer_output, self.dropout, self.training)


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each in a residual sub-layer.

    With a causal mask it is the layer of a language model.

    Args:
        self_attention: attention of the sequence to itself.
        feed_forward: Eq. 2.
        add_norm: makes the `AddNorm` of one sub-layer, or a `PreNorm`.
    """

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        add_norm: Callable[[], AddNorm | PreNorm],
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.self_attention_norm = add_norm()
        self.feed_forward = feed_forward
        self.feed_forward_norm = add_norm()

    def forward(
        self,
        x: Tensor,
        mask: Tensor | Window | None = None,
        is_causal: bool = False,
        cache: KeysAndValues | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(B, S, D) -> (B, S, D) and weights (B, H, S, keys); see `MultiHeadAttention.forward`."""
        query = self.self_attention_norm.before(x)
        attended, weights = self.self_attention(
            query, mask=mask, is_causal=is_causal, cache=cache, need_weights=need_weights
        )
        x = self.self_attention_norm(x, attended)
        transformed = self.feed_forward(self.feed_forward_norm.before(x))
        return self.feed_forward_norm(x, transformed), weights


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention and a feed-forward network, each residual.

    Args:
        self_attention: attention of the target to itself, under a causal mask.
        cross_attention: the paper's encoder-decoder attention.
        feed_forward: Eq. 2.
        add_norm: makes the `AddNorm` of one sub-layer, or a `PreNorm`.
    """

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        add_norm: Callable[[], AddNorm | PreNorm],
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.self_attention_norm = add_norm()
        self.cross_attention = cross_attention
        self.cross_attention_norm = add_norm()
        self.feed_forward = feed_forward
        self.feed_forward_norm = add_norm()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        self_mask: Tensor | Window | None = None,
        memory_mask: Tensor | None = None,
        is_causal: bool = False,
        caches: tuple[KeysAndValues | None, KeysAndValues | None] = (None, None),
        need_self_weights: bool = False,
        need_cross_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Compute one layer at all target positions, or at the new ones where there are caches.

        Args:
            x: (B, T, D).
            memory: encoder output, (B, S, D).
            self_mask, memory_mask, is_causal, caches, need_self_weights, need_cross_weights:
                of self-attention and cross-attention, as in `MultiHeadAttention.forward`.

        Returns:
            (B, T, D) and the weights (B, H, T, keys) and (B, H, T, S), or None.
        """
        query = self.self_attention_norm.before(x)
        attended, self_weights = self.self_attention(
            query,
            mask=self_mask,
            is_causal=is_causal,
            cache=caches[0],
            need_weights=need_self_weights,
        )
        x = self.self_attention_norm(x, attended)
        query = self.cross_attention_norm.before(x)
        attended, cross_weights = self.cross_attention(
            query, memory, mask=memory_mask, cache=caches[1], need_weights=need_cross_weights
        )
        x = self.cross_attention_norm(x, attended)
        transformed = self.feed_forward(self.feed_forward_norm.before(x))
        return self.feed_forward_norm(x, transformed), self_weights, cross_weights
