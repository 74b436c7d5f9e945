"""Classes that a checkpoint may hold besides tensors and plain containers. They run no code."""

import argparse

import numpy as np

_MULTIARRAY = np._core.multiarray if hasattr(np, "_core") else np.core.multiarray
_NUMBERS = "bool uint8 int8 int16 int32 int64 float16 float32 float64".split()
HARMLESS_GLOBALS = (
    # a model that is registered without a dataclass keeps its flags in a Namespace
    argparse.Namespace,
    # --eval-bleu keeps its sums as numpy scalars and arrays of numbers
    np.ndarray,
    np.dtype,
    *(type(np.dtype(number)) for number in _NUMBERS),
    *(
        (getattr(_MULTIARRAY, name), f"numpy.{module}.multiarray.{name}")
        for name in ("scalar", "_reconstruct")
        for module in ("core", "_core")  # as numpy 1 and numpy 2 write them
    ),
)
"""For `torch.serialization.safe_globals`: classes and functions, some with their names in files."""
LONGEST_REFUSAL = 2000
"""Longest message of a refused pickle, in characters, that PyTorch gets; the rest is cut off.
PyTorch searches the message in quadratic time, and the file decides how long the message is."""
