"""Dropout: the right share, independently drawn, repeated by a seed; with the right gradient."""

import numpy as np
import pytest
import saved_tensors
import torch
import torch.nn.functional as F

from vaswani_plugin.modules import dropout as dropout_module
from vaswani_plugin.modules.add_norm import AddNorm
from vaswani_plugin.modules.dropout import LEVELS, dropout, keep_mask

MANY = 1_000_000


@pytest.fixture
def seeded():
    torch.manual_seed(7)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.97])
def test_the_share_is_p_at_every_place_of_a_draw(seeded, p):
    dropped = 1 - keep_mask(torch.empty(MANY), p)[0].numpy().astype(np.float64)
    for lane in range(4):  # one number of 64 bits decides on four elements
        share = dropped[lane::4]
        deviation = (p * (1 - p) / share.size) ** 0.5
        assert abs(share.mean() - p) < 5 * deviation


def test_neighbours_are_independent(seeded):
    """Up to the next draw but one, in every combination of two."""
    dropped = 1 - keep_mask(torch.empty(MANY), 0.3)[0].numpy().astype(np.float64)
    deviation = (0.09 * 0.91 / (MANY / 4)) ** 0.5
    for lane in range(4):
        for distance in range(1, 9):
            both = dropped[:-distance] * dropped[distance:]
            assert abs(both[lane::4].mean() - 0.09) < 5 * deviation


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_the_expectation_is_exact(p):
    """What is kept is scaled by the probability in force, a multiple of 2^-16 beside p."""
    keep, scale = keep_mask(torch.empty(8), p)
    in_force = 1 - round(p * 65536) / 65536
    assert scale == 1 / in_force and abs(in_force - (1 - p)) <= 2**-17
    levels = torch.arange(-LEVELS // 2, LEVELS // 2)
    assert int((levels >= round(p * LEVELS) - LEVELS // 2).sum()) / LEVELS == in_force


@pytest.mark.parametrize("shape", [(1,), (3,), (5, 7), (2, 3, 4), (0, 4)])
def test_any_shape(seeded, shape):
    x = torch.ones(shape)
    y = dropout(x, 0.5)
    assert y.shape == x.shape and set(y.flatten().tolist()) <= {0.0, 2.0}


def test_a_seed_repeats_the_mask_and_the_next_one_differs():
    x = torch.ones(1000)
    torch.manual_seed(3)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    torch.manual_seed(3)
    assert dropout(x, 0.5).equal(first) and not first.equal(second)


def test_the_gradient_passes_where_the_value_did(seeded):
    x = torch.randn(50, 7, dtype=torch.float64, requires_grad=True)
    y = dropout(x, 0.3)
    weights = torch.randn(50, 7, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((y * weights).sum(), x)
    torch.testing.assert_close(gradient, weights * y.detach() / x.detach(), atol=1e-12, rtol=1e-12)
    assert (gradient == 0).any() and (gradient != 0).any()


@pytest.mark.parametrize("elements", [999, 1000, 1001, 1003])
def test_a_large_mask_is_kept_as_bits(seeded, monkeypatch, elements):
    monkeypatch.setattr(dropout_module, "WORTH_BITS", 1000)
    x = torch.ones(elements, requires_grad=True)
    with saved_tensors.collected() as kept:
        y = dropout(x, 0.5)
    assert [x.nbytes for x in kept] == [elements if elements < 1000 else (elements + 7) // 8]
    y.sum().backward()
    assert x.grad.equal(y) and 0 < y.count_nonzero() < elements


def test_finite_differences_agree():
    def repeated(x):
        torch.manual_seed(4)
        return dropout(x, 0.3)

    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(repeated, (x,))


def test_off_in_evaluation_and_at_0():
    x = torch.randn(9)
    assert dropout(x, 0.5, training=False) is x and dropout(x, 0.0) is x


def test_everything_may_be_dropped():
    assert (dropout(torch.ones(100), 1.0) == 0).all()
    assert (dropout(torch.ones(100), 1e-9) == 1).all()


def test_half_precision(seeded):
    y = dropout(torch.ones(1000, dtype=torch.bfloat16), 0.5)
    assert y.dtype == torch.bfloat16 and set(y.tolist()) == {0.0, 2.0}


def test_on_other_devices_pytorchs_dropout_serves(monkeypatch):
    monkeypatch.setattr(dropout_module, "has_own_kernels", lambda x: False)
    x = torch.randn(100)
    torch.manual_seed(5)
    found = dropout(x, 0.3)
    torch.manual_seed(5)
    assert found.equal(F.dropout(x, 0.3))


def make_add_norm(dtype=torch.float64) -> AddNorm:
    module = AddNorm(6, 0.4).to(dtype)
    generator = torch.Generator().manual_seed(2)
    for parameter in module.parameters():
        noise = torch.randn(6, generator=generator, dtype=torch.float64)
        parameter.data += noise.to(dtype)
    return module


def test_the_fused_sub_layers_end_is_the_composition():
    """The same draws: value and gradients of LayerNorm(x + Dropout(y)), operator by operator."""
    module = make_add_norm()
    x, y = torch.randn(2, 4, 5, 6, dtype=torch.float64).requires_grad_().unbind()
    inputs = [x, y, *module.parameters()]
    results = []
    for fused in (True, False):
        torch.manual_seed(9)
        z = module(x, y) if fused else module.norm(x + dropout(y, 0.4))
        weights = torch.arange(z.numel(), dtype=z.dtype).view(z.shape)
        results.append([z, *torch.autograd.grad((z * weights).sum(), inputs)])
    for one, other in zip(*results, strict=True):
        assert other.abs().max() > 1e-3
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


def test_finite_differences_of_the_sub_layers_end_agree():
    module = make_add_norm()

    def repeated(x, y, weight, bias):
        torch.manual_seed(6)
        parameters = {"norm.weight": weight, "norm.bias": bias}
        return torch.func.functional_call(module, parameters, (x, y))

    x, y = (torch.randn(3, 6, dtype=torch.float64).requires_grad_() for _ in range(2))
    weight, bias = (p.detach().clone().requires_grad_() for p in module.parameters())
    assert torch.autograd.gradcheck(repeated, (x, y, weight, bias))


def test_bfloat16_of_the_sub_layers_end_is_near():
    half, exact = make_add_norm(torch.bfloat16), make_add_norm().to(torch.bfloat16).double()
    x, y = (torch.randn(5, 6, dtype=torch.bfloat16) for _ in range(2))
    results = []
    for module, dtype in ((half, torch.bfloat16), (exact, torch.float64)):
        torch.manual_seed(8)
        inputs = [z.to(dtype).requires_grad_() for z in (x, y)]
        z = module(*inputs)
        assert z.dtype == dtype
        gradients = torch.autograd.grad((z * torch.arange(6, dtype=dtype)).sum(), inputs)
        results.append([z, *gradients])
    for one, other in zip(*results, strict=True):
        assert (one.double() - other).abs().max() < 0.05 * other.abs().max()
