"""Which library multiplies float32 matrices: PyTorch's own choice (MKL in its builds), or oneDNN.

PyTorch brings both along. Which is faster depends on the processor's maker as much as on its
instructions; `recipes/benchmarks/matrix_libraries.sh` measures both, and its results stand here.

Axes: R rows, D inputs, V outputs.
"""

import os
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from vaswani_plugin.devices import runs_on_host
from vaswani_plugin.errors import UserError

VARIABLE = "VASWANI_MATRIX_LIBRARY"
LIBRARIES = ("pytorch", "onednn")
FASTER_WITH_ONEDNN = {("AuthenticAMD", "AVX512")}
"""Processors by vendor and instructions where oneDNN was measured to be the faster: on AMD's with
AVX-512 twice as fast. With AVX2 alone MKL leads by 5 to 20 %, on Intel's with AVX-512 by 10 %."""
LEAST_ROWS = 24
"""Below so many rows a call of oneDNN costs more than it gains."""


def vendor() -> str:
    """The processor's vendor as Linux names it; "" where it doesn't."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("vendor_id")), "")


@cache
def chosen_library() -> str:
    """The library for this processor, or the one that `VASWANI_MATRIX_LIBRARY` names.

    Raises:
        UserError: when the variable names neither.
    """
    named = os.environ.get(VARIABLE)
    if named is not None and named not in LIBRARIES:
        raise UserError(f"{VARIABLE}={named}: must be one of {', '.join(LIBRARIES)}")
    if not has_onednn():
        return "pytorch"
    capability = torch.backends.cpu.get_cpu_capability()
    faster = "onednn" if (vendor(), capability) in FASTER_WITH_ONEDNN else "pytorch"
    return named or faster


def has_onednn() -> bool:
    """Whether this PyTorch can be asked for oneDNN's product of a matrix and a weight.

    PyTorch has no public name for it: `torch.ops.mkldnn._linear_pointwise` is what its own
    compiler calls.
    """
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def onednn_product(a: Tensor, b: Tensor, bias: Tensor | None = None, then: str = "none") -> Tensor:
    """a b^T + bias by oneDNN, for float32 on a CPU; `then` is "none" or "relu". See `product`."""
    return torch.ops.mkldnn._linear_pointwise(a, b, bias, then, [], "")


def takes_onednn(a: Tensor) -> bool:
    """Whether `product` has oneDNN multiply the rows of `a`, (R, D)."""
    return (
        a.dtype == torch.float32
        and runs_on_host(a.device)
        and a.size(0) >= LEAST_ROWS
        and a.numel() > 0
        and chosen_library() == "onednn"
        and torch.backends.mkldnn.enabled
    )


def product(a: Tensor, b: Tensor, bias: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """a b^T + bias; no gradients.

    Args:
        a: (R, D), of any strides.
        b: (V, D), of any strides.
        bias: (V,).
        out: (R, V), takes the result; without it that is a tensor of its own.

    Returns:
        (R, V).
    """
    if takes_onednn(a):
        y = onednn_product(a, b, bias)
        return y if out is None else out.copy_(y)
    if bias is None:
        return torch.mm(a, b.t(), out=out)
    return torch.addmm(bias, a, b.t(), out=out)
