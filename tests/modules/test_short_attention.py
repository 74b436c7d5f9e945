"""Attention over few keys by products equals the NumPy loops of Eq. 1, with PyTorch's gradients."""

import numpy as np
import paper_reference
import pytest
import torch
import torch.nn.functional as F
from reference_weights import default_dtype

from vaswani_plugin.modules import attention, short_attention
from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.short_attention import as_bias, attend, is_short

B, H, T, S, K, V = 2, 3, 5, 6, 4, 7
TIGHT = {"atol": 1e-10, "rtol": 0}


@pytest.fixture(autouse=True)
def float64():
    before = torch.get_num_threads()
    with default_dtype(torch.float64):
        torch.manual_seed(7)
        yield
    torch.set_num_threads(before)


def queries_keys_values(keys=S):
    """Views with the heads side by side, as projections give them."""
    sizes = ((T, K), (keys, K), (keys, V))
    return [torch.randn(B, n, H, width).transpose(1, 2).requires_grad_() for n, width in sizes]


def make_mask(kind: str) -> torch.Tensor | None:
    shapes = {"padding": (B, 1, 1, S), "window": (T, S), "each": (B, H, T, S)}
    if kind not in shapes:
        return None
    mask = torch.rand(shapes[kind]) < 0.5
    mask[..., 1] = True  # every query sees at least one key
    return mask


@pytest.mark.parametrize("kind", ["none", "padding", "window", "each", "causal"])
def test_equation_1(kind):
    is_causal, mask = kind == "causal", make_mask(kind)
    query, key, value = queries_keys_values(T if is_causal else S)
    outputs = short_attention.short_attention(query, key, value, mask, is_causal)
    shown = torch.ones(T, T, dtype=torch.bool).tril() if is_causal else mask
    shown = None if shown is None else shown.expand(B, H, T, -1)
    for b in range(B):
        for h in range(H):
            parts = [x[b, h].detach().numpy() for x in (query, key, value)]
            own = None if shown is None else shown[b, h].numpy()
            expected, _ = paper_reference.attention(*parts, own)
            np.testing.assert_allclose(outputs[b, h].detach().numpy(), expected, **TIGHT)
    with torch.no_grad():
        alone = short_attention.short_attention(query, key, value, mask, is_causal)
    assert alone.equal(outputs) and not alone.requires_grad


@pytest.mark.parametrize("kind", ["none", "padding", "window", "each", "causal"])
def test_gradients_are_pytorchs(kind):
    is_causal, mask = kind == "causal", make_mask(kind)
    inputs = queries_keys_values(T if is_causal else S)
    results = []
    for function in (short_attention.short_attention, F.scaled_dot_product_attention):
        y = function(*inputs, mask, is_causal=is_causal)
        results.append([y, *torch.autograd.grad(y.cos().sum(), inputs)])
    for ours, plain in zip(*results, strict=True):
        assert plain.abs().max() > 1e-2
        torch.testing.assert_close(ours, plain, **TIGHT)


def test_finite_differences_agree():
    mask = make_mask("window")
    assert torch.autograd.gradcheck(
        lambda *args: short_attention.short_attention(*args, mask), queries_keys_values()
    )


def test_a_query_that_sees_nothing_gets_zeros_and_gives_no_gradient():
    mask = make_mask("each")
    mask[1, 2, 3] = False
    inputs = queries_keys_values()
    y = short_attention.short_attention(*inputs, mask)
    assert (y[1, 2, 3] == 0).all() and y[1, 2, 2].abs().max() > 0.01
    of_query, of_key, of_value = torch.autograd.grad(y.sin().sum(), inputs)
    assert (of_query[1, 2, 3] == 0).all() and of_query[1, 2, 2].abs().max() > 1e-4
    assert of_key.isfinite().all() and of_value.isfinite().all()


def test_its_weights_sum_to_1():
    _, weights = attend(*queries_keys_values(), as_bias(make_mask("padding"), torch.float64), False)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B * H, T), atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("keys", "width", "threads", "short"),
    [
        (32, 32, 1, True),
        (33, 32, 1, False),
        (32, 33, 1, False),
        (32, 64, 2, True),
        (33, 64, 2, False),
    ],
)
def test_when_the_products_are_faster(keys, width, threads, short):
    torch.set_num_threads(threads)
    query, key = torch.empty(1, 1, 5, width), torch.empty(1, 1, keys, width)
    assert is_short(query, key) is short
    assert not is_short(query.bfloat16(), key.bfloat16())
    assert not is_short(query.to("meta"), key.to("meta"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not is_short(query, key)


@pytest.mark.parametrize("keys", [32, 33])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_module_takes_the_faster_way(keys, dropout, monkeypatch):
    calls = []

    def counted(*args):
        calls.append(args)
        return short_attention.short_attention(*args)

    monkeypatch.setattr(attention, "short_attention", counted)
    module = MultiHeadAttention(8, 2, 4, 4, dropout)
    module(torch.randn(1, 3, 8), torch.randn(1, keys, 8))
    assert len(calls) == (keys == 32 and not dropout)
