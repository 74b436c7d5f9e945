"""Faster layers are the plain ones, in value and gradients; the processor chooses the library."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.kernels import layers as kernel
from vaswani_plugin.kernels import matrix_library
from vaswani_plugin.kernels.layers import FusedAddNorm, OneDNNLinear, keep_mask, linear, product
from vaswani_plugin.kernels.matrix_library import LEAST_ROWS, chosen_library
from vaswani_plugin.modules.layers import AddNorm

MANY = 1_000_000
NEAR = {"atol": 2e-5, "rtol": 1e-5}  # sums of up to 40 products of normal numbers, in float32


def make_case(*leading: int, dtype=torch.float32, inputs=9, outputs=7):
    generator = torch.Generator().manual_seed(3)
    shapes = ((*leading, inputs), (outputs, inputs), (outputs,))
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in shapes
    ]


def value_and_gradients(function, inputs) -> list[torch.Tensor]:
    """Of a sum that weighs every element of the result differently."""
    y = function(*inputs)
    weights = torch.arange(1, y.numel() + 1, dtype=torch.float64).view(y.shape) / y.numel()
    return [y, *torch.autograd.grad((y * weights.to(y.dtype)).sum(), inputs)]


@pytest.fixture(params=["pytorch", "onednn"])
def library(request, monkeypatch):
    """The library that multiplies, whatever the processor."""
    if request.param == "onednn" and not matrix_library.has_onednn():
        pytest.skip("this PyTorch was built without oneDNN: its products cannot be tested here")
    monkeypatch.setattr(kernel, "chosen_library", lambda: request.param)
    return request.param


@pytest.mark.parametrize("leading", [(LEAST_ROWS,), (5, 8), (LEAST_ROWS - 1,), (1, 1), (0,)])
@pytest.mark.parametrize("outputs", [7, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_equals_pytorch(library, leading, outputs, dtype):
    inputs = make_case(*leading, outputs=outputs, dtype=dtype)
    if len(leading) == 2:  # strides play no part
        turned = inputs[0].detach().transpose(0, 1).contiguous().transpose(0, 1)
        inputs[0] = turned.requires_grad_()
    ours = value_and_gradients(linear, inputs)
    float64, bfloat16 = {"atol": 1e-10, "rtol": 0}, {"atol": 0.2, "rtol": 0.02}
    near = {torch.float64: float64, torch.float32: NEAR, torch.bfloat16: bfloat16}[dtype]
    with torch.no_grad():
        assert linear(*inputs).equal(ours[0])
    for one, other in zip(ours, value_and_gradients(F.linear, inputs), strict=True):
        torch.testing.assert_close(one, other, **near)


def test_an_input_that_was_changed_in_place_is_noticed(library):
    """Autograd counts what is written into a saved tensor; a silent wrong gradient is worse."""
    torch.manual_seed(2)
    layer = OneDNNLinear(nn.Linear(16, 16))
    x = nn.LayerNorm(16)(torch.randn(5000, 16))
    y = layer(x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.fixture
def layer(monkeypatch):
    """One whose kernel must not run."""
    if not matrix_library.has_onednn():
        pytest.skip("this PyTorch was built without oneDNN")
    monkeypatch.setattr(kernel, "chosen_library", lambda: "onednn")
    monkeypatch.setattr(kernel, "linear", lambda *_: pytest.fail("the kernel ran"))
    return OneDNNLinear(nn.Linear(9, 7))


def test_the_linear_layer_steps_aside(layer):
    """For autocast, transforms of torch.func, torch.compile, another device and subclasses."""
    x = torch.randn(40, 9)

    class Noted(torch.Tensor):
        pass

    assert type(layer(x.as_subclass(Noted))) is Noted
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    parameters = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(parameters, x):
        return torch.func.functional_call(layer, parameters, (x,)).square().sum()

    rows = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    (expected,) = torch.autograd.grad(F.linear(x, *layer.parameters()).square().sum(), layer.weight)
    torch.testing.assert_close(rows["weight"].sum(0), expected, atol=1e-3, rtol=1e-5)
    compiled = torch.compile(layer, backend="eager")
    torch.testing.assert_close(compiled(x), F.linear(x, layer.weight, layer.bias))
    assert layer.to("meta")(torch.empty(40, 9, device="meta")).shape == (40, 7)


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
        parameter.data += torch.randn(6, generator=generator, dtype=torch.float64).to(dtype)
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


@pytest.mark.parametrize("case", ["evaluation", "no dropout", "all dropped", "meta", "torch.func"])
def test_it_steps_aside(case, monkeypatch):
    monkeypatch.setattr(kernel, "keep_mask", lambda *_: pytest.fail("the kernel ran"))
    dropout = {"no dropout": 0.0, "all dropped": 1.0}.get(case, 0.4)
    module = make_add_norm(torch.float32, dropout).train(case != "evaluation")
    device = "meta" if case == "meta" else "cpu"
    module, x = module.to(device), torch.randn(2, 3, 6, device=device)
    if case != "torch.func":
        y = module(x, x)
        assert y.shape == x.shape
    if case == "all dropped":
        assert y.equal(module.norm(x))
    if case == "torch.func":
        total = lambda x: module(x, x).sum()  # noqa: E731
        assert torch.func.vmap(torch.func.grad(total), randomness="different")(x).shape == x.shape


@pytest.mark.parametrize(
    ("vendor", "capability", "named", "has_onednn", "expected"),
    [
        ("AuthenticAMD", "AVX512", None, True, "onednn"),
        ("AuthenticAMD", "AVX2", None, True, "pytorch"),
        ("GenuineIntel", "AVX512", None, True, "pytorch"),
        ("", "DEFAULT", "onednn", True, "onednn"),
        ("AuthenticAMD", "AVX512", "pytorch", True, "pytorch"),
        ("AuthenticAMD", "AVX512", None, False, "pytorch"),
        ("", "DEFAULT", "", True, "pytorch"),
        ("AuthenticAMD", "AVX512", "onednn", False, "this PyTorch has pytorch; give one"),
        ("AuthenticAMD", "AVX512", "mkl", True, "this PyTorch has pytorch and onednn; give one"),
    ],
)
def test_processor_and_variable_decide(
    request, monkeypatch, vendor, capability, named, has_onednn, expected
):
    chosen_library.cache_clear()
    request.addfinalizer(chosen_library.cache_clear)
    monkeypatch.setattr(matrix_library, "vendor", lambda: vendor)
    monkeypatch.setattr(matrix_library, "has_onednn", lambda: has_onednn)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.delenv(matrix_library.VARIABLE, raising=False)
    if named is not None:
        monkeypatch.setenv(matrix_library.VARIABLE, named)
    if " " in expected:
        with pytest.raises(UserError, match=f"={named}: {expected}"):
            chosen_library()
    else:
        assert chosen_library() == expected


@pytest.mark.parametrize("rows", [LEAST_ROWS, LEAST_ROWS - 1])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_product_goes_where_it_is_told(library, rows, with_bias):
    torch.manual_seed(1)
    a, b, bias = torch.randn(rows, 9), torch.randn(7, 9), torch.randn(7)
    bias = bias if with_bias else None
    expected = F.linear(a, b, bias)
    torch.testing.assert_close(product(a, b, bias), expected, atol=2e-5, rtol=1e-5)
    room = torch.full((rows + 2, 7), 5.0)
    assert product(a, b, bias, out=room[1:-1]).data_ptr() == room[1:].data_ptr()
    torch.testing.assert_close(room[1:-1], expected, atol=2e-5, rtol=1e-5)
    assert room[[0, -1]].eq(5).all()
    assert kernel.takes_onednn(a) is (library == "onednn" and rows >= LEAST_ROWS)


def test_switched_off_in_pytorch_onednn_has_no_part(monkeypatch):
    monkeypatch.setattr(kernel, "chosen_library", lambda: "onednn")
    with torch.backends.mkldnn.flags(enabled=False):
        assert not kernel.takes_onednn(torch.randn(LEAST_ROWS, 4))
