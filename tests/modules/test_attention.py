"""Attention (section 3.2) equals the NumPy loops of Eq. 1 and of multi-head attention."""

import numpy as np
import paper_reference
import pytest
import torch
from reference_weights import attention_weights_of, numbers, shake

from vaswani_plugin.modules import attention

TIGHT = {"atol": 1e-10, "rtol": 0}
pytestmark = pytest.mark.usefixtures("float64")


def make_attention(d_model=12, heads=3, d_k=4, d_v=4) -> attention.MultiHeadAttention:
    return shake(attention.MultiHeadAttention(d_model, heads, d_k, d_v)).eval()


def random_mask(queries: int, keys: int) -> torch.Tensor:
    """About half visible; one query sees nothing, each other one at least one key."""
    mask = torch.rand(queries, keys) < 0.5
    mask[:, 1] = True
    mask[2] = False
    return mask


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_equation_1(masked, scale):
    """With the paper's scale, or another one in its place."""
    query, key, value = torch.randn(5, 3), torch.randn(6, 3), torch.randn(6, 7)
    mask = random_mask(5, 6) if masked else None
    outputs, weights = attention.scaled_dot_product_attention(query, key, value, mask, scale)
    rescaled = query.numpy() * (scale * 3**0.5 if scale else 1)
    expected, expected_weights = paper_reference.attention(
        rescaled, key.numpy(), value.numpy(), mask.numpy() if masked else None
    )
    np.testing.assert_allclose(outputs.numpy(), expected, **TIGHT)
    np.testing.assert_allclose(weights.numpy(), expected_weights, **TIGHT)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scaled", [True, False])
def test_multi_head_attention(masked, scaled):
    """Without the scale it is Eq. 1 with larger queries."""
    module = shake(attention.MultiHeadAttention(10, 2, 3, 7, scaled=scaled)).eval()
    weights_of_module = attention_weights_of(module)
    for name in ("W_Q", "b_Q"):
        weights_of_module[name] *= 1 if scaled else 3**0.5
    query, memory = torch.randn(1, 5, 10), torch.randn(1, 6, 10)
    mask = random_mask(5, 6) if masked else None
    expected, expected_weights = paper_reference.multi_head_attention(
        query[0].numpy(), memory[0].numpy(), weights_of_module, mask.numpy() if masked else None
    )
    for need_weights in (False, True):
        output, weights = module(query, memory, mask, need_weights=need_weights)
        np.testing.assert_allclose(numbers(output[0]), expected, **TIGHT)
    np.testing.assert_allclose(numbers(weights[0]), expected_weights, **TIGHT)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("ends", [[6], [3, 5, 6], [1, 2, 3, 4, 5, 6]], ids=str)
def test_causal_self_attention(need_weights, ends):
    """At once, or a piece after the other, the earlier ones in the cache."""
    module = make_attention()
    x = torch.randn(1, 6, 12)
    expected, expected_weights = paper_reference.multi_head_attention(
        x[0].numpy(), x[0].numpy(), attention_weights_of(module), paper_reference.past_only(6)
    )
    cache, begin = attention.KeysAndValues(), 0
    for end in ends:
        part = x[:, begin:end]
        output, weights = module(part, is_causal=True, cache=cache, need_weights=need_weights)
        np.testing.assert_allclose(numbers(output[0]), expected[begin:end], **TIGHT)
        if need_weights:
            seen = expected_weights[:, begin:end, :end]
            np.testing.assert_allclose(numbers(weights[0]), seen, **TIGHT)
        else:
            assert weights is None
        begin = end
    assert cache.key.shape == cache.value.shape == (1, 3, 6, 4)


def test_pytorchs_attention_is_equation_1_with_gradients():
    """The module against Eq. 1 written out: value and gradients of input and parameters."""
    module = make_attention(d_k=3, d_v=5)
    mask = (torch.rand(7, 7) < 0.5) | torch.eye(7, dtype=torch.bool)

    def written_out(x):
        projected = (module.query(x), module.key(x), module.value(x))
        heads, _ = attention.scaled_dot_product_attention(
            *(attention.split_heads(y, 3) for y in projected), mask
        )
        return module.output(attention.merge_heads(heads))

    gradients = []
    for compute in (lambda x: module(x, mask=mask)[0], written_out):
        x = torch.randn(2, 7, 12, generator=torch.Generator().manual_seed(8)).requires_grad_()
        output = compute(x)
        inputs = [x, *module.parameters()]
        gradients.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
    for fast, plain in zip(*gradients, strict=True):
        assert plain.abs().max() > 1e-6 or plain.numel() == module.key.bias.numel()
        torch.testing.assert_close(fast, plain, atol=1e-10, rtol=0)


@pytest.mark.parametrize("need_weights", [False, True])
def test_attention_dropout_works_in_training_only(need_weights):
    module = attention.MultiHeadAttention(12, 3, 4, 4, dropout=0.5)
    x = torch.randn(1, 6, 12)
    results = [module.eval()(x, need_weights=need_weights) for _ in range(2)]
    assert results[0][0].equal(results[1][0])
    results = [module.train()(x, need_weights=need_weights) for _ in range(2)]
    assert not results[0][0].equal(results[1][0])
    if need_weights:
        assert results[0][1].equal(results[1][1])


def test_initial_weights_are_xavier_uniform():
    """Glorot & Bengio (2010), Eq. 16; W^Q, W^K and W^V are the parts of one matrix."""
    module = attention.MultiHeadAttention(96, 4, 24, 24)
    for name, columns in {"query": 3 * 96, "key": 3 * 96, "value": 3 * 96, "output": 96}.items():
        bound = (6 / (96 + columns)) ** 0.5
        assert 0.99 * bound < getattr(module, name).weight.abs().max().item() <= bound, name
    assert not module.output.bias.any()
