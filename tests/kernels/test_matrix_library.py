"""Which library multiplies: by the processor, by the variable, and never another result."""

import pytest
import torch
import torch.nn.functional as F

from vaswani_plugin.errors import UserError
from vaswani_plugin.kernels import matrix_library
from vaswani_plugin.kernels.matrix_library import LEAST_ROWS, chosen_library, product


@pytest.fixture(autouse=True)
def chosen_anew():
    chosen_library.cache_clear()
    yield
    chosen_library.cache_clear()


@pytest.mark.parametrize(
    ("vendor", "capability", "named", "has_onednn", "expected"),
    [
        ("AuthenticAMD", "AVX512", None, True, "onednn"),
        ("AuthenticAMD", "AVX2", None, True, "pytorch"),
        ("GenuineIntel", "AVX512", None, True, "pytorch"),
        ("", "DEFAULT", None, True, "pytorch"),
        ("", "DEFAULT", "onednn", True, "onednn"),
        ("AuthenticAMD", "AVX512", "pytorch", True, "pytorch"),
        ("AuthenticAMD", "AVX512", None, False, "pytorch"),
        ("AuthenticAMD", "AVX512", "pytorch", False, "pytorch"),
        ("AuthenticAMD", "AVX512", "onednn", False, "=onednn: this PyTorch was built without"),
        ("", "DEFAULT", "openblas", True, "=openblas: must be one of pytorch, onednn"),
    ],
)
def test_processor_and_variable_decide(
    monkeypatch, vendor, capability, named, has_onednn, expected
):
    monkeypatch.setattr(matrix_library, "vendor", lambda: vendor)
    monkeypatch.setattr(matrix_library, "has_onednn", lambda: has_onednn)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.delenv(matrix_library.VARIABLE, raising=False)
    if named:
        monkeypatch.setenv(matrix_library.VARIABLE, named)
    if expected in matrix_library.LIBRARIES:
        assert chosen_library() == expected
        return
    with pytest.raises(UserError, match=expected):
        chosen_library()


@pytest.mark.parametrize("library", matrix_library.LIBRARIES)
@pytest.mark.parametrize("rows", [LEAST_ROWS, LEAST_ROWS - 1])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_product_goes_where_it_is_told(monkeypatch, library, rows, with_bias):
    monkeypatch.setattr(matrix_library, "chosen_library", lambda: library)
    torch.manual_seed(1)
    a, b, bias = torch.randn(rows, 9), torch.randn(7, 9), torch.randn(7)
    bias = bias if with_bias else None
    expected = F.linear(a, b, bias)
    torch.testing.assert_close(product(a, b, bias), expected, atol=2e-5, rtol=1e-5)
    room = torch.full((rows + 2, 7), 5.0)
    y = product(a, b, bias, out=room[1:-1])
    assert y.data_ptr() == room[1:].data_ptr()
    torch.testing.assert_close(room[1:-1], expected, atol=2e-5, rtol=1e-5)
    assert room[[0, -1]].eq(5).all()
    uses = matrix_library.takes_onednn(a)
    assert uses is (library == "onednn" and rows >= LEAST_ROWS and matrix_library.has_onednn())


def test_switched_off_in_pytorch_onednn_has_no_part(monkeypatch):
    monkeypatch.setattr(matrix_library, "chosen_library", lambda: "onednn")
    with torch.backends.mkldnn.flags(enabled=False):
        assert not matrix_library.takes_onednn(torch.randn(LEAST_ROWS, 4))
