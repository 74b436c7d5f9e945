"""A linear layer by oneDNN equals `torch.nn.Linear` in value and gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vaswani_plugin.kernels import matrix_library
from vaswani_plugin.kernels.layers import OneDNNLinear, linear
from vaswani_plugin.kernels.matrix_library import LEAST_ROWS

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
    monkeypatch.setattr(matrix_library, "chosen_library", lambda: request.param)
    return request.param


@pytest.mark.parametrize("leading", [(LEAST_ROWS,), (5, 8), (LEAST_ROWS - 1,), (1, 1), (0,)])
@pytest.mark.parametrize("outputs", [7, 40])
def test_equals_pytorch(library, leading, outputs):
    inputs = make_case(*leading, outputs=outputs)
    ours = value_and_gradients(linear, inputs)
    for one, other in zip(ours, value_and_gradients(F.linear, inputs), strict=True):
        torch.testing.assert_close(one, other, **NEAR)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions(library, dtype):
    inputs = make_case(40, dtype=dtype)
    ours = value_and_gradients(linear, inputs)
    near = {"atol": 0.1, "rtol": 0.02} if dtype == torch.bfloat16 else {"atol": 1e-10, "rtol": 0}
    for one, other in zip(ours, value_and_gradients(F.linear, inputs), strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one, other, **near)


def test_strides_play_no_part(library):
    x, weight, bias = make_case(6, 5)
    turned = x.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    assert not turned.is_contiguous()
    expected = value_and_gradients(F.linear, (x, weight, bias))
    for inputs in ((turned, weight, bias), (x, weight, bias)):
        for one, other in zip(value_and_gradients(linear, inputs), expected, strict=True):
            torch.testing.assert_close(one, other, **NEAR)


def test_frozen_inputs_get_no_gradient(library):
    x, weight, bias = make_case(40)
    weight.requires_grad_(False)
    linear(x, weight, bias).sum().backward()
    assert weight.grad is None and x.grad is not None and bias.grad is not None
    with torch.no_grad():
        assert not linear(x, weight, bias).requires_grad


def test_an_input_that_was_changed_in_place_is_noticed(library):
    """Autograd counts what is written into a saved tensor; a silent wrong gradient is worse."""
    torch.manual_seed(2)
    layer = OneDNNLinear(nn.Linear(16, 16))
    norm = nn.LayerNorm(16)
    x = norm(torch.randn(5000, 16))
    y = layer(x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.fixture
def layer(monkeypatch):
    """One whose kernel must not run."""
    if not matrix_library.has_onednn():
        pytest.skip("this PyTorch was built without oneDNN")
    monkeypatch.setattr(matrix_library, "chosen_library", lambda: "onednn")
    monkeypatch.setattr(
        "vaswani_plugin.kernels.layers.linear", lambda *_: pytest.fail("the kernel ran")
    )
    return OneDNNLinear(nn.Linear(9, 7))


def test_it_steps_aside(layer):
    """For autocast, transforms of torch.func, torch.compile and another device."""
    x = torch.randn(40, 9)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    parameters = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(parameters, x):
        return torch.func.functional_call(layer, parameters, (x,)).square().sum()

    found = torch.func.grad(loss)(parameters, x)
    plain = F.linear(x, *layer.parameters())
    (expected,) = torch.autograd.grad(plain.square().sum(), layer.weight)
    torch.testing.assert_close(found["weight"], expected, atol=1e-3, rtol=1e-5)
    rows = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    assert rows["weight"].shape == (40, 7, 9)
    compiled = torch.compile(layer, backend="eager")
    torch.testing.assert_close(compiled(x), F.linear(x, layer.weight, layer.bias))
    assert layer.to("meta")(torch.empty(40, 9, device="meta")).shape == (40, 7)
