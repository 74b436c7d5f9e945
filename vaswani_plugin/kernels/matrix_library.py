"""The library that multiplies float32 matrices: PyTorch's own choice (MKL in its builds) or oneDNN.

PyTorch includes both; which is faster depends on the processor (measurements: docs/evidence).

Axes: R rows, D inputs, V outputs.
"""

import os
from functools import cache

import torch
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.processor import runs_on_host, vendor

VARIABLE = "VASWANI_MATRIX_LIBRARY"
FASTER_WITH_ONEDNN = {("AuthenticAMD", "AVX512")}
"""Processors, by vendor and instructions, on which oneDNN was measured to be faster: 1.1 and 2.1
times on two machines. MKL is 5 to 20 % faster with AVX2 alone, 6 % on Intel with AVX-512. A table,
because measuring at the start misleads: of 24 times 0.2 s on one busy Intel, 7 chose oneDNN."""
LEAST_ROWS = 24
"""With fewer rows, a call of oneDNN costs more than it gains."""


@cache
def chosen_library() -> str:
    """Return the library for this processor, or the one that `VASWANI_MATRIX_LIBRARY` names.

    Raises:
        UserError: it names another library, or oneDNN where this PyTorch has none.
    """
    known = ("pytorch", "onednn") if has_onednn() else ("pytorch",)
    processor = vendor(), torch.backends.cpu.get_cpu_capability()
    usual = known[-1] if processor in FASTER_WITH_ONEDNN else "pytorch"
    named = os.environ.get(VARIABLE, "").strip() or usual
    if named not in known:
        raise UserError(f"{VARIABLE}={named}: this PyTorch has {' and '.join(known)}; give one")
    return named


def has_onednn() -> bool:
    """Return whether this PyTorch has oneDNN's product, which its own compiler calls, too."""
    names = "_linear_pointwise", "_reorder_linear_weight"
    available = torch.backends.mkldnn.is_available()
    return available and all(hasattr(torch.ops.mkldnn, name) for name in names)


def onednn_product(a: Tensor, b: Tensor, bias: Tensor | None = None, then: str = "none") -> Tensor:
    """Compute then(a b^T + bias) by oneDNN, in float32 on a CPU; `then` is "none" or "relu"."""
    return torch.ops.mkldnn._linear_pointwise(a, b, bias, then, [], "")


def takes_onednn(a: Tensor) -> bool:
    """Return whether `product` uses oneDNN for `a`, (R, D)."""
    return (
        a.dtype == torch.float32
        and runs_on_host(a.device)
        and a.size(0) >= LEAST_ROWS
        and a.numel() > 0
        and chosen_library() == "onednn"
        and bool(torch.backends.mkldnn.enabled)
    )


def product(a: Tensor, b: Tensor, bias: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Compute a b^T + bias without gradients, (R, D) and (V, D) -> (R, V), into `out` if given."""
    if takes_onednn(a):
        y = onednn_product(a, b, bias)
        return y if out is None else out.copy_(y)
    if bias is None:
        return torch.mm(a, b.t(), out=out)
    return torch.addmm(bias, a, b.t(), out=out)
