"""The packed linear map is nn.Linear, whichever kernel serves it."""

import pytest
import torch

from vaswani_plugin.kernels import packed_layers
from vaswani_plugin.kernels.matrix_library import LEAST_ROWS, has_onednn
from vaswani_plugin.kernels.packed_layers import PackedLinear


@pytest.mark.parametrize("rows", [1, 23, 24, 200])
@pytest.mark.parametrize("sizes", [(16, 40), (600, 500)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("library", ["pytorch", "onednn"])
def test_packed_is_plain(rows, sizes, bias, relu, dtype, library, monkeypatch):
    calls, product = [], packed_layers.onednn_product
    monkeypatch.setattr(packed_layers, "chosen_library", lambda: library)
    monkeypatch.setattr(
        packed_layers, "onednn_product", lambda *given: calls.append(1) or product(*given)
    )
    torch.manual_seed(1)
    linear = torch.nn.Linear(*sizes, bias=bias, dtype=dtype)
    x = torch.randn(rows, sizes[0], dtype=dtype)
    with torch.no_grad():
        packed = PackedLinear(linear.weight, linear.bias, relu)
        expected = x.double() @ linear.weight.double().T
        expected += linear.bias.double() if bias else 0
        expected = expected.clamp(min=0) if relu else expected
        torch.testing.assert_close(packed(x).double(), expected, atol=1e-5, rtol=1e-5)
    has, is_large = dtype == torch.float32 and has_onednn(), sizes == (600, 500)
    assert packed.packed == (has and is_large)
    assert bool(calls) == (has and (is_large or (rows >= LEAST_ROWS and library == "onednn")))


def test_without_onednn_it_is_plain_pytorch(monkeypatch):
    monkeypatch.setattr(packed_layers, "_is_for_onednn", lambda weight: False)
    linear = torch.nn.Linear(600, 500)
    packed = PackedLinear(linear.weight, linear.bias, relu=True)
    x = torch.randn(50, 600)
    assert not packed.packed
    with torch.no_grad():
        assert packed(x).equal(linear(x).relu())
