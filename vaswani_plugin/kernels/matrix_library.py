"""The library that multiplies float32 matrices: PyTorch's own choice (MKL in its builds) or oneDNN.

PyTorch includes both; which is faster depends on the processor (measurements: docs/evidence).
"""

import os
from functools import cache

import torch
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.processor import vendor

VARIABLE = "VASWANI_MATRIX_LIBRARY"
FASTER_WITH_ONEDNN = {("AuthenticAMD", "AVX512")}
"""Processors, by vendor and instructions, on which oneDNN was measured to be faster: 1.1 and 2.1
times on two machines, 0.9 on a third. MKL is 5 to 20 % faster with AVX2 alone, 6 % on Intel with
AVX-512. A table, because measuring at the start misleads: of 24 tries of 0.2 s, 7 chose wrong."""
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
