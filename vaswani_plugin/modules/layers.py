"""Encoder and decoder layers and their stacks (section 3.1), post-norm as in the paper.

Axes: B batch, S source length, T target length, D d_model, H heads.
"""

import os
import shutil
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vaswani_plugin.modules.add_norm import LAYER_NORM_EPS as LAYER_NORM_EPS
from vaswani_plugin.modules.add_norm import AddNorm
from vaswani_plugin.modules.attention import KeyValueCache, MultiHeadAttention
from vaswani_plugin.modules.feed_forward import FeedForward
from vaswani_plugin.modules.recomputing import drop_origin

DecoderCache = dict[str, KeyValueCache]
"""One cache an attention, named by layer and kind; empty before the first step."""


class Layer(nn.Module):
    """A layer that training may run in another way: the two switches change no result.

    `compile()`, of every module, counts in training only, where batches have few shapes.

    Attributes:
        recompute: keep the inputs only, and run the layer a second time, with the same dropout,
            in the backward pass.
    """

    recompute = False

    def train(self, mode: bool = True) -> "Layer":
        """`torch.nn.Module.train`.

        Raises:
            ValueError: when the layer is to be compiled and there is no C++ compiler.
        """
        compiler = os.environ.get("CXX", "g++")
        if mode and self._compiled_call_impl is not None and not shutil.which(compiler):
            raise ValueError(
                f"--compile needs a C++ compiler and there is no {compiler}; install one, name "
                f"it in the variable CXX, or train without --compile"
            )
        return super().train(mode)

    def __call__(self, *args, **kwargs):
        """`forward` of the subclass."""
        call = super().__call__ if self.training else self._call_impl  # the latter: not compiled
        if self.recompute and self.training and torch.is_grad_enabled():
            results = checkpoint(call, *args, use_reentrant=False, **kwargs)
            drop_origin(results[0])
            return results
        return call(*args, **kwargs)


class EncoderLayer(Layer):
    """Self-attention and a feed-forward network, each in a residual sub-layer.

    Args:
        self_attention: attention of the source to itself.
        feed_forward: Eq. 2.
        add_norm: makes the end of one sub-layer.
    """

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        add_norm: Callable[[], AddNorm],
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.self_attention_norm = add_norm()
        self.feed_forward = feed_forward
        self.feed_forward_norm = add_norm()

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """(B, S, D) -> (B, S, D) and, on request, weights (B, H, S, S)."""
        attended, weights = self.self_attention(x, mask=mask, need_weights=need_weights)
        x = self.self_attention_norm(x, attended)
        return self.feed_forward_norm(x, self.feed_forward(x)), weights


class DecoderLayer(Layer):
    """Masked self-attention, attention to the encoder and a feed-forward network.

    Args:
        self_attention: attention of the target to its past.
        cross_attention: the paper's encoder-decoder attention.
        feed_forward: Eq. 2.
        add_norm: makes the end of one sub-layer.
    """

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        add_norm: Callable[[], AddNorm],
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
        self_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        caches: tuple[KeyValueCache, KeyValueCache] | None = None,
        need_self_weights: bool = False,
        need_cross_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """One layer over all target positions, or over the new ones where there are caches.

        Args:
            x: (B, T, D).
            memory: the encoder's output, (B, S, D).
            self_mask: boolean, broadcastable to (B, H, T, keys); None hides the future only.
            memory_mask: boolean, broadcastable to (B, H, T, S).
            caches: of self-attention and of attention to the memory.
            need_self_weights: return the weights (B, H, T, keys) of self-attention.
            need_cross_weights: return the weights (B, H, T, S) of attention to the memory.

        Returns:
            (B, T, D) and the two weights, None where they were not asked for.
        """
        self_cache, cross_cache = caches if caches is not None else (None, None)
        attended, self_weights = self.self_attention(
            x,
            mask=self_mask,
            is_causal=self_mask is None and x.size(1) > 1,  # one new position sees all before it
            cache=self_cache,
            need_weights=need_self_weights,
        )
        x = self.self_attention_norm(x, attended)
        attended, cross_weights = self.cross_attention(
            x, memory, mask=memory_mask, cache=cross_cache, need_weights=need_cross_weights
        )
        x = self.cross_attention_norm(x, attended)
        x = self.feed_forward_norm(x, self.feed_forward(x))
        return x, self_weights, cross_weights


class EncoderStack(nn.ModuleList):
    """N encoder layers, one after the other."""

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """(B, S, D) -> (B, S, D) and, on request, each layer's weights (B, H, S, S)."""
        collected = []
        for layer in self:
            x, weights = layer(x, mask, need_weights)
            if weights is not None:
                collected.append(weights)
        return x, collected


class DecoderStack(nn.ModuleList):
    """N decoder layers, one after the other."""

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        self_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: DecoderCache | None = None,
        need_weights: bool = False,
        need_last_cross_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Arguments as `DecoderLayer.forward`, with one cache for the whole stack.

        Args:
            x: (B, T, D).
            memory: (B, S, D).
            self_mask: see `DecoderLayer.forward`.
            memory_mask: see `DecoderLayer.forward`.
            cache: filled and read layer by layer.
            need_weights: collect the weights of every layer.
            need_last_cross_weights: collect only the last layer's attention to the memory.

        Returns:
            (B, T, D); the self-attention weights (B, H, T, keys) of each layer asked for;
            the weights (B, H, T, S) of attention to the memory of each layer asked for.
        """
        all_self, all_cross = [], []
        for number, layer in enumerate(self):
            caches = None
            if cache is not None:
                caches = (
                    cache.setdefault(f"layers.{number}.self_attention", {}),
                    cache.setdefault(f"layers.{number}.cross_attention", {}),
                )
            need_cross = need_weights or (need_last_cross_weights and number == len(self) - 1)
            x, self_weights, cross_weights = layer(
                x, memory, self_mask, memory_mask, caches, need_weights, need_cross
            )
            if self_weights is not None:
                all_self.append(self_weights)
            if cross_weights is not None:
                all_cross.append(cross_weights)
        return x, all_self, all_cross
