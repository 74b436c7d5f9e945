"""Layers and stacks (section 3.1) equal the NumPy reference; they are post-norm."""

import numpy as np
import paper_reference
import pytest
import torch
from reference_weights import default_dtype, layer_weights_of, norm_weights_of, numbers, shake

from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.feed_forward import FeedForward
from vaswani_plugin.modules.layers import (
    LAYER_NORM_EPS,
    AddNorm,
    DecoderLayer,
    EncoderLayer,
)
from vaswani_plugin.modules.masks import neighbourhood

D = 12
TIGHT = {"atol": 1e-10, "rtol": 0}


@pytest.fixture(autouse=True)
def float64():
    with default_dtype(torch.float64):
        torch.manual_seed(5)
        yield


def make_attention() -> MultiHeadAttention:
    return MultiHeadAttention(D, 3, d_k=4, d_v=5)


def make_encoder_layer() -> EncoderLayer:
    return shake(EncoderLayer(make_attention(), FeedForward(D, 20), lambda: AddNorm(D, 0.0)))


def make_decoder_layer() -> DecoderLayer:
    attentions = (make_attention(), make_attention())
    return shake(DecoderLayer(*attentions, FeedForward(D, 20), lambda: AddNorm(D, 0.0)))


def test_add_norm_is_layer_norm_of_the_sum():
    module = shake(AddNorm(D, 0.0)).eval()
    x, sublayer_output = torch.randn(1, 4, D), torch.randn(1, 4, D)
    expected = paper_reference.layer_norm(
        (x + sublayer_output)[0].numpy(), norm_weights_of(module), LAYER_NORM_EPS
    )
    np.testing.assert_allclose(numbers(module(x, sublayer_output)[0]), expected, **TIGHT)


def test_epsilon_of_the_authors_code_is_in_force():
    """On a nearly constant row it decides: 1e-6 beside a variance of 1e-6 shows in full."""
    x = 1e-3 * torch.tensor([[[1.0, -1.0] * (D // 2)]])
    normal = AddNorm(D, 0.0)(x, torch.zeros_like(x))
    torch.testing.assert_close(normal.abs(), torch.full_like(x, 0.5**0.5), atol=1e-6, rtol=0)


def test_dropout_is_on_the_sub_layer_and_not_on_the_residual():
    module = AddNorm(D, 0.999999).train()
    x = torch.randn(1, 4, D)
    dropped = module(x, torch.randn(1, 4, D))
    torch.testing.assert_close(dropped, module.norm(x), atol=1e-12, rtol=0)


@pytest.mark.parametrize("window", [0, 3])
def test_encoder_layer(window):
    layer = make_encoder_layer().eval()
    x = torch.randn(2, 6, D)
    mask = neighbourhood(window) if window else None
    output, weights = layer(x, mask, need_weights=False)
    assert weights is None
    for sentence in range(2):
        expected = paper_reference.encoder_layer(
            x[sentence].numpy(),
            layer_weights_of(layer),
            LAYER_NORM_EPS,
            mask.mask(6).numpy() if window else None,
        )
        np.testing.assert_allclose(numbers(output[sentence]), expected, **TIGHT)


@pytest.mark.parametrize("need_weights", [False, True])
def test_decoder_layer(need_weights):
    layer = make_decoder_layer().eval()
    x, memory = torch.randn(2, 6, D), torch.randn(2, 4, D)
    output, self_weights, cross_weights = layer(
        x,
        memory,
        is_causal=True,
        need_self_weights=need_weights,
        need_cross_weights=need_weights,
    )
    for sentence in range(2):
        expected = paper_reference.decoder_layer(
            x[sentence].numpy(), memory[sentence].numpy(), layer_weights_of(layer), LAYER_NORM_EPS
        )
        np.testing.assert_allclose(numbers(output[sentence]), expected, **TIGHT)
    if need_weights:
        assert self_weights.shape == (2, 3, 6, 6) and cross_weights.shape == (2, 3, 6, 4)
    else:
        assert self_weights is None and cross_weights is None


def test_a_decoder_layer_looks_ahead_unless_it_is_causal():
    layer = make_decoder_layer().eval()
    x, memory = torch.randn(1, 6, D), torch.randn(1, 4, D)
    changed = x.clone()
    changed[0, 5] = 1.0
    first, other = (layer(y, memory)[0][0, 0] for y in (x, changed))
    assert (first - other).abs().max() > 1e-3


def test_output_of_a_layer_is_normalized():
    """Post-norm: with gain 1 and bias 0 each output has mean 0 and variance 1."""
    layer = EncoderLayer(make_attention(), FeedForward(D, 20), lambda: AddNorm(D, 0.0))
    output, _ = layer(10 * torch.randn(2, 6, D))
    torch.testing.assert_close(output.mean(-1), torch.zeros(2, 6), atol=1e-10, rtol=0)
    torch.testing.assert_close(output.var(-1, unbiased=False), torch.ones(2, 6), atol=1e-3, rtol=0)
