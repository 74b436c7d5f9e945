"""The linear map equals torch.nn.functional.linear, value and gradients, by either library."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vaswani_plugin.modules import linear as linear_module
from vaswani_plugin.modules.linear import (
    WORTH_ONEDNN,
    SumOfGradients,
    _Linear,
    add_product,
    joint_linear,
    linear,
    product,
    takes_onednn,
    zeros_for_products,
)

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


@pytest.fixture
def onednn_calls(monkeypatch):
    """How many products oneDNN made, in a list of one number, were it the faster here."""
    if linear_module._ONEDNN_LINEAR is None:
        pytest.skip("this PyTorch was built without oneDNN: its products cannot be tested here")
    calls, original = [0], linear_module._ONEDNN_LINEAR

    def counted(*args):
        calls[0] += 1
        return original(*args)

    monkeypatch.setattr(linear_module, "_ONEDNN_LINEAR", counted)
    monkeypatch.setattr(linear_module, "ONEDNN_IS_FASTER", True)
    return calls


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(
    ("leading", "products"),
    [((WORTH_ONEDNN,), 2), ((5, 8), 2), ((WORTH_ONEDNN - 1,), 0), ((1, 1), 0)],
)
def test_equals_pytorch(onednn_calls, leading, products, relu):
    """The gradient of the weight, of 7 rows here, is a small product: PyTorch's own."""
    inputs = make_case(*leading)
    ours = value_and_gradients(lambda x, w, b: linear(x, w, b, relu), inputs)
    assert onednn_calls[0] == products
    plain = value_and_gradients(
        lambda x, w, b: F.relu(F.linear(x, w, b)) if relu else F.linear(x, w, b), inputs
    )
    for one, other in zip(ours, plain, strict=True):
        assert other.abs().max() > 1e-2 or (relu and leading == (1, 1))
        torch.testing.assert_close(one, other, **NEAR)


def test_a_large_weights_gradient_is_onednns_too(onednn_calls):
    inputs = make_case(40, outputs=30)
    ours = value_and_gradients(linear, inputs)
    assert onednn_calls[0] == 3
    for one, other in zip(ours, value_and_gradients(F.linear, inputs), strict=True):
        torch.testing.assert_close(one, other, **NEAR)


def test_without_onednn_nothing_changes(onednn_calls):
    inputs = make_case(40, outputs=30)
    fast = value_and_gradients(linear, inputs)
    with torch.backends.mkldnn.flags(enabled=False):
        plain = value_and_gradients(linear, inputs)
    assert onednn_calls[0] == 3
    for one, other in zip(fast, plain, strict=True):
        torch.testing.assert_close(one, other, **NEAR)


def test_where_it_is_slower_onednn_has_no_part(onednn_calls, monkeypatch):
    monkeypatch.setattr(linear_module, "ONEDNN_IS_FASTER", False)
    inputs = make_case(40, outputs=30)
    plain = value_and_gradients(F.linear, inputs)
    for one, other in zip(value_and_gradients(linear, inputs), plain, strict=True):
        assert one.equal(other)
    assert onednn_calls[0] == 0


@pytest.mark.parametrize("onednn", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_products_add_up(onednn_calls, monkeypatch, onednn, dtype):
    monkeypatch.setattr(linear_module, "ONEDNN_IS_FASTER", onednn)
    weight = torch.empty(50, 40, dtype=dtype)
    wide = torch.promote_types(dtype, torch.float32)
    total, expected = zeros_for_products(weight, wide), torch.zeros(50, 40, dtype=torch.float64)
    assert total.shape == weight.shape and total.dtype == wide and not total.any()
    for seed in range(3):
        torch.manual_seed(seed)
        a, b = (torch.randn(9, rows).to(dtype).t() for rows in (50, 40))
        add_product(total, a, b)
        expected += a.double() @ b.double().t()
    bound = 0.1 if dtype == torch.bfloat16 else 2e-5
    assert (total.double() - expected).abs().max() < bound < expected.abs().max() / 5
    assert onednn_calls[0] == (3 if onednn and dtype == torch.float32 else 0)


@pytest.mark.parametrize("onednn", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_product_goes_where_it_is_told(onednn_calls, monkeypatch, onednn, with_bias):
    monkeypatch.setattr(linear_module, "ONEDNN_IS_FASTER", onednn)
    a, b, bias = (each.detach() for each in make_case(50))
    bias = bias if with_bias else None
    room = torch.full((52, 7), 5.0)
    y = product(a, b, bias, relu=True, out=room[1:51])
    assert y.data_ptr() == room[1:].data_ptr() and (onednn_calls[0] == 1) is onednn
    assert takes_onednn(a) is onednn
    torch.testing.assert_close(room[1:51], F.linear(a, b, bias).relu(), **NEAR)
    assert room[[0, -1]].eq(5).all()


@pytest.mark.parametrize("onednn", [False, True])
def test_gradients_of_pieces_add_up(onednn_calls, monkeypatch, onednn):
    monkeypatch.setattr(linear_module, "ONEDNN_IS_FASTER", onednn)
    x, weight, _ = (each.detach() for each in make_case(90, outputs=WORTH_ONEDNN))
    grad_y = torch.randn(90, WORTH_ONEDNN, generator=torch.Generator().manual_seed(4))
    total, grad_x = SumOfGradients(weight), torch.empty(90, 9)
    for piece in (slice(0, 40), slice(40, 90)):
        total.add(grad_y[piece], x[piece], grad_x[piece])
    assert (onednn_calls[0] > 0) is onednn
    expected = grad_y @ weight, grad_y.T @ x, grad_y.sum(dim=0)
    for found, wanted in zip((grad_x, *total.of_parameters()), expected, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-5)


def test_strides_play_no_part():
    x, weight, bias = make_case(6, 5)
    turned = x.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    assert not turned.is_contiguous()
    for inputs in ((turned, weight, bias), (x, weight, bias)):
        found = value_and_gradients(linear, inputs)
        expected = value_and_gradients(F.linear, (x, weight, bias))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, **NEAR)


def test_no_bias():
    x, weight, _ = make_case(40)
    found = value_and_gradients(linear, (x, weight))
    for one, other in zip(found, value_and_gradients(F.linear, (x, weight)), strict=True):
        torch.testing.assert_close(one, other, **NEAR)


@pytest.mark.parametrize("relu", [False, True])
def test_finite_differences_agree(relu):
    inputs = make_case(2, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *args: _Linear.apply(*args, relu), inputs)


def test_frozen_inputs_get_no_gradient():
    x, weight, bias = make_case(40)
    weight.requires_grad_(False)
    linear(x, weight, bias).sum().backward()
    assert weight.grad is None and x.grad is not None and bias.grad is not None
    with torch.no_grad():
        assert not linear(x, weight, bias).requires_grad


def test_bfloat16_is_near():
    half = make_case(40, dtype=torch.bfloat16)
    exact = [x.detach().double().requires_grad_() for x in half]
    found = value_and_gradients(lambda x, w, b: linear(x, w, b, True), half)
    expected = value_and_gradients(lambda x, w, b: F.relu(F.linear(x, w, b)), exact)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.bfloat16
        assert (one.double() - other).abs().max() < 0.02 * other.abs().max()


def test_autocast_stays_in_charge():
    x, weight, bias = make_case(40)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear(x, weight, bias).dtype == torch.bfloat16


@pytest.mark.parametrize("sizes", [(7,), (7, 3), (7, 3, 5)])
def test_joint_projections_are_the_single_ones(sizes):
    torch.manual_seed(1)
    projections = [nn.Linear(9, size).double() for size in sizes]
    x = torch.randn(4, 6, 9, dtype=torch.float64, requires_grad=True)
    inputs = [x, *(p for projection in projections for p in projection.parameters())]
    found = joint_linear(x, *projections)
    expected = [projection(x) for projection in projections]
    gradients = []
    for outputs in (found, expected):
        total = sum((k + 1) * y.square().sum() for k, y in enumerate(outputs))
        gradients.append(torch.autograd.grad(total, inputs))
    for one, other in zip((*found, *gradients[0]), (*expected, *gradients[1]), strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)
