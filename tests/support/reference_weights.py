"""Hands the weights of our modules to the NumPy reference, in its own layout."""

import contextlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.layers import AddNorm, DecoderLayer, EncoderLayer, FeedForward

Weights = dict[str, np.ndarray]


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """New modules, and tables that buffers hold, are made in `dtype`."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@torch.no_grad()
def shake(module: nn.Module, seed: int = 11, size: float = 0.3) -> nn.Module:
    """Add noise to every parameter: no bias stays 0 and no gain 1, so that each one counts."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.add_(size * noise.to(parameter.dtype))
    return module


def numbers(x: Tensor) -> np.ndarray:
    """A tensor as a float64 array of its own."""
    return x.detach().double().numpy().copy()


def attention_weights_of(module: MultiHeadAttention) -> Weights:
    """One matrix a head, (H, D, K), out of the projections that lie side by side."""
    weights = {}
    for name, linear in (("Q", module.query), ("K", module.key), ("V", module.value)):
        width = linear.out_features // module.heads
        rows = [slice(h * width, (h + 1) * width) for h in range(module.heads)]
        weights[f"W_{name}"] = np.stack([numbers(linear.weight)[r].T for r in rows])
        weights[f"b_{name}"] = np.stack([numbers(linear.bias)[r] for r in rows])
    weights["W_O"] = numbers(module.output.weight).T
    weights["b_O"] = numbers(module.output.bias)
    return weights


def feed_forward_weights_of(module: FeedForward) -> Weights:
    """W_1, b_1, W_2, b_2 of Eq. 2."""
    return {
        "W_1": numbers(module.w_1.weight).T,
        "b_1": numbers(module.w_1.bias),
        "W_2": numbers(module.w_2.weight).T,
        "b_2": numbers(module.w_2.bias),
    }


def norm_weights_of(module: AddNorm) -> Weights:
    """Gain and bias of the LayerNorm."""
    return {"gain": numbers(module.norm.weight), "bias": numbers(module.norm.bias)}


def layer_weights_of(layer: EncoderLayer | DecoderLayer) -> dict[str, Weights]:
    """Every sub-layer of a layer under the reference's names."""
    weights = {
        "self_attention": attention_weights_of(layer.self_attention),
        "self_attention_norm": norm_weights_of(layer.self_attention_norm),
        "feed_forward": feed_forward_weights_of(layer.feed_forward),
        "feed_forward_norm": norm_weights_of(layer.feed_forward_norm),
    }
    if isinstance(layer, DecoderLayer):
        weights["cross_attention"] = attention_weights_of(layer.cross_attention)
        weights["cross_attention_norm"] = norm_weights_of(layer.cross_attention_norm)
    return weights
