"""Attention (section 3.2) equals the NumPy loops of Eq. 1 and of multi-head attention."""

import numpy as np
import paper_reference
import pytest
import torch
import torch.nn.functional as F
from reference_weights import attention_weights_of, default_dtype, numbers, shake

from vaswani_plugin.modules.attention import (
    MultiHeadAttention,
    merge_heads,
    scaled_dot_product_attention,
    split_heads,
)

TIGHT = {"atol": 1e-10, "rtol": 0}


@pytest.fixture(autouse=True)
def float64():
    with default_dtype(torch.float64):
        torch.manual_seed(5)
        yield


def make_attention(d_model=12, heads=3, d_k=4, d_v=4) -> MultiHeadAttention:
    return shake(MultiHeadAttention(d_model, heads, d_k, d_v)).eval()


def random_mask(queries: int, keys: int) -> torch.Tensor:
    """About half visible; every query sees at least one key."""
    mask = torch.rand(queries, keys) < 0.5
    mask[:, 1] = True
    return mask


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("d_k", "d_v"), [(4, 4), (3, 7), (1, 1)])
def test_equation_1(masked, d_k, d_v):
    query, key, value = torch.randn(5, d_k), torch.randn(6, d_k), torch.randn(6, d_v)
    mask = random_mask(5, 6) if masked else None
    outputs, weights = scaled_dot_product_attention(query, key, value, mask)
    expected, expected_weights = paper_reference.attention(
        query.numpy(), key.numpy(), value.numpy(), mask.numpy() if masked else None
    )
    np.testing.assert_allclose(outputs.numpy(), expected, **TIGHT)
    np.testing.assert_allclose(weights.numpy(), expected_weights, **TIGHT)


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_another_scale_takes_the_place_of_the_papers(scale):
    query, key, value = torch.randn(5, 4), torch.randn(6, 4), torch.randn(6, 3)
    outputs, _ = scaled_dot_product_attention(query, key, value, scale=scale)
    rescaled = query.numpy() * scale * 4**0.5
    expected, _ = paper_reference.attention(rescaled, key.numpy(), value.numpy(), None)
    np.testing.assert_allclose(outputs.numpy(), expected, **TIGHT)


@pytest.mark.parametrize("need_weights", [False, True])
def test_attention_without_the_scale_is_eq_1_with_larger_queries(need_weights):
    plain = MultiHeadAttention(12, 3, 4, 4, scaled=False).eval()
    scaled = MultiHeadAttention(12, 3, 4, 4).eval()
    scaled.load_state_dict(shake(plain).state_dict())
    with torch.no_grad():
        for parameter in (scaled.query.weight, scaled.query.bias):
            parameter.mul_(4**0.5)
    x = torch.randn(2, 5, 12)
    torch.testing.assert_close(
        plain(x, need_weights=need_weights)[0], scaled(x)[0], atol=1e-12, rtol=0
    )


def test_rows_of_weights_sum_to_1_and_hidden_keys_get_nothing():
    mask = random_mask(5, 6)
    _, weights = scaled_dot_product_attention(
        torch.randn(2, 3, 5, 4) * 30, torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4), mask
    )
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5), atol=1e-12, rtol=0)
    assert (weights[..., ~mask] == 0).all()
    assert (weights[..., mask] > 0).all()


def test_a_query_that_sees_nothing_gets_zeros():
    mask = random_mask(5, 6)
    mask[2] = False
    query, key, value = torch.randn(5, 4), torch.randn(6, 4), torch.randn(6, 4)
    outputs, weights = scaled_dot_product_attention(query, key, value, mask)
    assert (outputs[2] == 0).all() and (weights[2] == 0).all()
    assert outputs.isfinite().all() and outputs[1].abs().max() > 0
    fast = F.scaled_dot_product_attention(query[None], key[None], value[None], mask[None])[0]
    torch.testing.assert_close(fast, outputs, atol=1e-12, rtol=0)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("d_model", "heads", "d_k", "d_v"), [(12, 3, 4, 4), (10, 2, 3, 7)])
def test_multi_head_attention(masked, d_model, heads, d_k, d_v):
    module = make_attention(d_model, heads, d_k, d_v)
    query, memory = torch.randn(1, 5, d_model), torch.randn(1, 6, d_model)
    mask = random_mask(5, 6) if masked else None
    expected, expected_weights = paper_reference.multi_head_attention(
        query[0].numpy(),
        memory[0].numpy(),
        attention_weights_of(module),
        mask.numpy() if masked else None,
    )
    for need_weights in (False, True):
        output, weights = module(query, memory, mask, need_weights=need_weights)
        np.testing.assert_allclose(numbers(output[0]), expected, **TIGHT)
    np.testing.assert_allclose(numbers(weights[0]), expected_weights, **TIGHT)


@pytest.mark.parametrize("need_weights", [False, True])
def test_causal_self_attention(need_weights):
    module = make_attention()
    x = torch.randn(1, 6, 12)
    expected, expected_weights = paper_reference.multi_head_attention(
        x[0].numpy(), x[0].numpy(), attention_weights_of(module), paper_reference.past_only(6)
    )
    output, weights = module(x, is_causal=True, need_weights=need_weights)
    np.testing.assert_allclose(numbers(output[0]), expected, **TIGHT)
    if need_weights:
        np.testing.assert_allclose(numbers(weights[0]), expected_weights, **TIGHT)
    else:
        assert weights is None


def test_pytorchs_attention_is_equation_1_with_gradients():
    """The module against Eq. 1 written out: value and gradients of input and parameters."""
    module = make_attention(d_k=3, d_v=5)
    mask = random_mask(7, 7)

    def written_out(x):
        projected = (module.query(x), module.key(x), module.value(x))
        heads, _ = scaled_dot_product_attention(*(split_heads(y, 3) for y in projected), mask)
        return module.output(merge_heads(heads))

    gradients = []
    for compute in (lambda x: module(x, mask=mask)[0], written_out):
        x = torch.randn(2, 7, 12, generator=torch.Generator().manual_seed(8)).requires_grad_()
        output = compute(x)
        inputs = [x, *module.parameters()]
        gradients.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
    for fast, plain in zip(*gradients, strict=True):
        assert plain.abs().max() > 1e-6 or plain.numel() == module.key.bias.numel()
        torch.testing.assert_close(fast, plain, atol=1e-10, rtol=0)


def test_the_cache_gives_what_all_at_once_gives():
    module = make_attention()
    x, memory = torch.randn(2, 6, 12), torch.randn(2, 4, 12)
    at_once, _ = module(x, is_causal=True)
    across, _ = module(x, memory)
    cache, memory_cache = {}, {}
    for t in range(6):
        step, _ = module(x[:, t : t + 1], cache=cache)
        torch.testing.assert_close(step[:, 0], at_once[:, t], atol=1e-12, rtol=0)
        # A filled cache is read, not the memory: what is handed in again no longer matters.
        handed = memory if t == 0 else torch.full_like(memory, torch.nan)
        step, _ = module(x[:, t : t + 1], handed, cache=memory_cache)
        torch.testing.assert_close(step[:, 0], across[:, t], atol=1e-12, rtol=0)
    assert cache["key"].shape == (2, 3, 6, 4)
    assert memory_cache["value"].shape == (2, 3, 4, 4)


@pytest.mark.parametrize("need_weights", [False, True])
def test_the_newest_positions_see_the_cached_ones(need_weights):
    module = make_attention()
    x = torch.randn(2, 6, 12)
    at_once, all_weights = module(x, is_causal=True, need_weights=True)
    cache = {}
    for new in (slice(0, 3), slice(3, 5), slice(5, 6)):
        step, weights = module(x[:, new], is_causal=True, cache=cache, need_weights=need_weights)
        torch.testing.assert_close(step, at_once[:, new], atol=1e-12, rtol=0)
        if need_weights:
            seen = all_weights[:, :, new, : new.stop]
            torch.testing.assert_close(weights, seen, atol=1e-12, rtol=0)


def test_permutation_lemma():
    """Without a mask, permuting queries, keys and values together permutes the output."""
    module = make_attention()
    x = torch.randn(2, 7, 12)
    order = torch.randperm(7)
    assert not order.equal(torch.arange(7))
    torch.testing.assert_close(module(x[:, order])[0], module(x)[0][:, order], atol=1e-12, rtol=0)
    masked = module(x[:, order], is_causal=True)[0] - module(x, is_causal=True)[0][:, order]
    assert masked.abs().max() > 1e-3


@pytest.mark.parametrize("need_weights", [False, True])
def test_attention_dropout_works_in_training_only(need_weights):
    module = MultiHeadAttention(12, 3, 4, 4, dropout=0.5)
    x = torch.randn(1, 6, 12)
    results = [module.eval()(x, need_weights=need_weights) for _ in range(2)]
    assert results[0][0].equal(results[1][0])
    results = [module.train()(x, need_weights=need_weights) for _ in range(2)]
    assert not results[0][0].equal(results[1][0])
    if need_weights:
        assert results[0][1].equal(results[1][1])


@pytest.mark.parametrize("name", ["d_model", "heads", "d_k", "d_v"])
def test_sizes_below_1_are_refused(name):
    sizes = {"d_model": 8, "heads": 2, "d_k": 4, "d_v": 4, name: 0}
    with pytest.raises(ValueError, match=f"{name} is 0; it must be at least 1"):
        MultiHeadAttention(**sizes)


def test_initial_weights_are_xavier_uniform():
    """Glorot & Bengio (2010), Eq. 16; W^Q, W^K and W^V are the parts of one matrix."""
    module = MultiHeadAttention(96, 4, 24, 24)
    for name, columns in {"query": 3 * 96, "key": 3 * 96, "value": 3 * 96, "output": 96}.items():
        bound = (6 / (96 + columns)) ** 0.5
        largest = getattr(module, name).weight.abs().max().item()
        assert 0.99 * bound < largest <= bound, name
    assert not module.output.bias.any()
