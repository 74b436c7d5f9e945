"""The fused end of a sub-layer: the right share dropped, independently drawn, repeated by a seed.

Given the same mask it equals LayerNorm(x + Dropout(y)) in value and gradient.
"""

import numpy as np
import pytest
import torch

from vaswani_plugin.kernels import layers as kernel
from vaswani_plugin.kernels.layers import LEVELS, FusedAddNorm, keep_mask
from vaswani_plugin.modules.layers import AddNorm

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


def test_a_seed_repeats_the_mask_and_the_next_one_differs():
    x = torch.ones(1000)
    torch.manual_seed(3)
    first, second = keep_mask(x, 0.5)[0], keep_mask(x, 0.5)[0]
    torch.manual_seed(3)
    assert keep_mask(x, 0.5)[0].equal(first) and not first.equal(second)


def make_add_norm(dtype=torch.float64, dropout=0.4) -> FusedAddNorm:
    module = AddNorm(6, dropout).to(dtype)
    generator = torch.Generator().manual_seed(2)
    for parameter in module.parameters():
        noise = torch.randn(6, generator=generator, dtype=torch.float64)
        parameter.data += noise.to(dtype)
    return FusedAddNorm(module)


def by_operators(module: AddNorm, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """LayerNorm(x + Dropout(y)), operator by operator, with the mask that the kernel would draw."""
    keep, scale = keep_mask(y, module.dropout)
    return module.norm(x + y * keep * scale)


@pytest.mark.parametrize("shape", [(4, 5, 6), (1, 1, 6), (0, 3, 6)])
def test_it_is_the_composition(shape):
    """The same draws: value and gradients."""
    module = make_add_norm()
    x, y = (torch.randn(shape, dtype=torch.float64).requires_grad_() for _ in range(2))
    inputs = [x, y, *module.parameters()]
    results = []
    for compute in (module, lambda *args: by_operators(module, *args)):
        torch.manual_seed(9)
        z = compute(x, y)
        weights = torch.arange(z.numel(), dtype=z.dtype).view(z.shape)
        results.append([z, *torch.autograd.grad((z * weights).sum(), inputs)])
    for one, other in zip(*results, strict=True):
        assert other.numel() < 7 or other.abs().max() > 1e-3
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


def test_under_autocast_the_sum_is_float32s(seeded):
    """A sub-layer's product is in bfloat16 then; the residual stream is not."""
    module = make_add_norm(torch.float32)
    x = torch.randn(4, 5, 6, requires_grad=True)
    y = torch.randn(4, 5, 6).bfloat16().requires_grad_()
    results = []
    for enabled in (True, False):
        torch.manual_seed(4)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            z = module(x, y if enabled else y.float())
        assert z.dtype == torch.float32
        results.append([z, *torch.autograd.grad(z.square().sum(), (x, y))])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-2)


@pytest.mark.parametrize("case", ["evaluation", "no dropout", "all dropped", "meta"])
def test_it_steps_aside(case, monkeypatch):
    monkeypatch.setattr(kernel, "keep_mask", lambda *_: pytest.fail("the kernel ran"))
    dropout = {"no dropout": 0.0, "all dropped": 1.0}.get(case, 0.4)
    module = make_add_norm(torch.float32, dropout).train(case != "evaluation")
    device = "meta" if case == "meta" else "cpu"
    module, x = module.to(device), torch.randn(2, 3, 6, device=device)
    y = module(x, x)
    assert y.shape == x.shape
    if case == "all dropped":
        assert y.equal(module.norm(x))


def test_under_vmap_and_grad_of_torch_func_it_steps_aside(monkeypatch):
    monkeypatch.setattr(kernel, "keep_mask", lambda *_: pytest.fail("the kernel ran"))
    module, x = make_add_norm(), torch.randn(5, 3, 6, dtype=torch.float64)

    def total(x):
        return module(x, x).sum()

    found = torch.func.vmap(torch.func.grad(total), randomness="different")(x)
    assert found.shape == x.shape
