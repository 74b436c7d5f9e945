"""Table 1: complexity per layer, sequential operations and maximum path length, and its text.

n is the length of the sequence, d the width, k the kernel of the convolution, r the neighbourhood
of restricted self-attention. Constants are left out, as in the table's O(.).
"""

import math
from dataclasses import dataclass
from itertools import count
from typing import Any

from vaswani_plugin.errors import UserError


@dataclass(frozen=True)
class LayerCost:
    """One row of Table 1, each column as a formula and as a number."""

    layer: str
    operations_formula: str
    operations: int  # complexity of a layer
    sequential_formula: str
    sequential_operations: int  # that can't run in parallel
    path_formula: str
    path_length: float  # most layers (recurrent: steps) between two positions, not rounded


def table_1(n: int, d: int, k: int, r: int) -> tuple[LayerCost, ...]:
    """The four rows of Table 1, for a kernel k of at least 2 and a neighbourhood r of at most n."""
    if k < 2:
        raise UserError(f"--k is {k}; it must be at least 2")
    if r > n:
        raise UserError(f"--r {r} is no restriction of --n {n}: give a smaller neighbourhood")
    return (
        LayerCost("self-attention", "n^2 d", n * n * d, "1", 1, "1", 1.0),
        LayerCost("recurrent", "n d^2", n * d * d, "n", n, "n", float(n)),
        LayerCost("convolutional", "k n d^2", k * n * d * d, "1", 1, "log_k n", math.log(n, k)),
        LayerCost("self-attention (restricted)", "r n d", r * n * d, "1", 1, "n/r", n / r),
    )


def as_text(result: dict[str, Any]) -> str:
    """The JSON object of `vaswani complexity` as text."""
    from tabulate import tabulate  # --help needs none

    n, d, k, r = (result[name] for name in "ndkr")
    headers = ["layer", "complexity per layer", "sequential operations", "maximum path length"]
    table = []
    for row in (LayerCost(**row) for row in result["layers"]):
        cells = [row.layer, f"{row.operations_formula} = {row.operations:,}"]
        cells.append(_number(row.sequential_formula, row.sequential_operations))
        table.append([*cells, _number(row.path_formula, row.path_length)])
    return (
        f"n {n}, d {d}, k {k}, r {r}; constants left out, as in O(.)\n"
        f"{tabulate(table, headers, disable_numparse=True)}\n\n"
        f"Self-attention costs {n / d:.3g} times what the recurrent layer does (n / d), "
        f"{n / r:.3g} times what the restricted one does (n / r). A convolution joins all "
        f"positions after {layers_to_join(n, k)} layers if its kernels are dilated, as in the "
        f"table, and after about n / k = {n / k:.3g} if they are contiguous, as in ConvS2S."
    )


def layers_to_join(n: int, k: int) -> int:
    """log_k(n), rounded up: the least number of layers of width k over n positions."""
    return next(layers for layers in count() if k**layers >= n)


def _number(formula: str, value: float) -> str:
    return formula if formula == "1" else f"{formula} = {value:,.3g}"
