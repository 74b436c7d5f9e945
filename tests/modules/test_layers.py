"""Layers (section 3.1) equal the NumPy reference, and so do their parts: Eq. 2, Add & Norm."""

import numpy as np
import paper_reference
import pytest
import torch
from reference_weights import (
    feed_forward_weights_of,
    layer_weights_of,
    norm_weights_of,
    numbers,
    shake,
)

from vaswani_plugin.modules.attention import MultiHeadAttention, neighbourhood
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.layers import AddNorm, DecoderLayer, EncoderLayer, FeedForward, PreNorm
from vaswani_plugin.modules.transformer import Encoder

D, PAD = 12, 1
EPS = 1e-6  # in LayerNorm, of the authors' code
TIGHT = {"atol": 1e-10, "rtol": 0}
pytestmark = pytest.mark.usefixtures("float64")


def make_attention() -> MultiHeadAttention:
    return MultiHeadAttention(D, 3, d_k=4, d_v=5)


def make_encoder_layer() -> EncoderLayer:
    return shake(EncoderLayer(make_attention(), FeedForward(D, 20), lambda: AddNorm(D, 0.0)))


def make_decoder_layer() -> DecoderLayer:
    attentions = (make_attention(), make_attention())
    return shake(DecoderLayer(*attentions, FeedForward(D, 20), lambda: AddNorm(D, 0.0)))


def test_add_norm_is_layer_norm_of_the_sum():
    module = shake(AddNorm(D, 0.0)).eval()
    x, y = torch.randn(1, 4, D), torch.randn(1, 4, D)
    expected = paper_reference.layer_norm((x + y)[0].numpy(), norm_weights_of(module), EPS)
    np.testing.assert_allclose(numbers(module(x, y)[0]), expected, **TIGHT)


def test_dropout_is_on_the_sub_layer_and_not_on_the_residual():
    module = AddNorm(D, 0.999999).train()
    x = torch.randn(1, 4, D)
    torch.testing.assert_close(module(x, torch.randn(1, 4, D)), module.norm(x), atol=1e-12, rtol=0)


def test_pre_norm():
    """Each sub-layer reads LayerNorm(x); its output is added to x itself."""
    parts = make_attention(), make_attention(), FeedForward(D, 20)
    layer = shake(DecoderLayer(*parts, lambda: PreNorm(D, 0.0))).eval()
    x, memory = torch.randn(1, 4, D), torch.randn(1, 6, D)
    found, weights = layer(x, memory, is_causal=True)[0], layer_weights_of(layer)
    x, memory = x[0].numpy(), memory[0].numpy()
    for name in ("self_attention", "cross_attention", "feed_forward"):
        read = paper_reference.layer_norm(x, weights[f"{name}_norm"], EPS)
        if name == "feed_forward":
            y = paper_reference.feed_forward(read, weights[name])
        else:
            is_self = name == "self_attention"
            others = (read, paper_reference.past_only(4)) if is_self else (memory, None)
            y, _ = paper_reference.multi_head_attention(read, others[0], weights[name], others[1])
        x = x + y
    np.testing.assert_allclose(numbers(found[0]), x, **TIGHT)


def test_a_stack_may_end_with_a_norm():
    embedding, norm = Embedding(9, D, PAD), torch.nn.LayerNorm(D)
    stack = embedding, torch.nn.Embedding(9, D), [make_encoder_layer()], 0.0
    stack[1].max_positions = 9
    plain, ending = (shake(Encoder(*stack, norm=x)).eval() for x in (None, norm))
    tokens = torch.tensor([[4, 5, 2]])
    torch.testing.assert_close(ending(tokens).features, norm(plain(tokens).features), **TIGHT)
    assert len(ending.state_dict()) == len(plain.state_dict()) + 2


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
            EPS,
            mask.mask(6).numpy() if window else None,
        )
        np.testing.assert_allclose(numbers(output[sentence]), expected, **TIGHT)


@pytest.mark.parametrize("need_weights", [False, True])
def test_decoder_layer(need_weights):
    layer = make_decoder_layer().eval()
    x, memory = torch.randn(2, 6, D), torch.randn(2, 4, D)
    output, self_weights, cross_weights = layer(
        x, memory, is_causal=True, need_self_weights=need_weights, need_cross_weights=need_weights
    )
    for sentence in range(2):
        expected = paper_reference.decoder_layer(
            x[sentence].numpy(), memory[sentence].numpy(), layer_weights_of(layer), EPS
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


def test_equation_2():
    module = shake(FeedForward(6, 10)).eval()
    x = torch.randn(1, 4, 6)
    expected = paper_reference.feed_forward(x[0].numpy(), feed_forward_weights_of(module))
    np.testing.assert_allclose(numbers(module(x)[0]), expected, **TIGHT)


def test_dropout_is_on_hidden_units_in_training_only():
    module, x = FeedForward(6, 10, dropout=0.5), torch.randn(3, 6)
    module.eval()
    assert module(x).equal(module(x))
    module.train()
    assert not module(x).equal(module(x))
    torch.nn.init.zeros_(module.w_2.weight)  # with W_2 = 0 only b_2 is left, and nothing drops it
    torch.nn.init.ones_(module.w_2.bias)
    assert module(x).equal(torch.ones(3, 6))


def test_embedded_tokens_start_at_unit_size_and_padding_stays_zero():
    """sqrt(D) times standard deviation D^-0.5: as large as the sinusoids added to it."""
    embedding = Embedding(2000, 64, PAD)
    assert 0.97 < embedding(torch.arange(2, 2000)).std() < 1.03
    tokens = torch.tensor([[4, PAD]])
    assert (embedding(tokens)[0, 1] == 0).all()
    embedding(tokens).sum().backward()
    assert (embedding.weight.grad[PAD] == 0).all()
    assert (embedding.weight.grad[4] == 8).all()
