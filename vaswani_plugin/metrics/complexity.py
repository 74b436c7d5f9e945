"""Table 1: complexity per layer, sequential operations and maximum path length.

n is the length of the sequence, d the width, k the kernel of the convolution, r the neighbourhood
of restricted self-attention. Constants are left out, as in the table's O(.).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression


@dataclass(frozen=True)
class LayerCost:
    """One row of Table 1, each column as a formula and as a number.

    operations: complexity of a layer. sequential_operations: operations that can't run in
    parallel. path_length: the maximum number of layers (for the recurrent layer, of steps) between
    two positions, not rounded.
    """

    layer: str
    operations_formula: str
    operations: int
    sequential_formula: str
    sequential_operations: int
    path_formula: str
    path_length: float


def table_1(n: int, d: int, k: int, r: int) -> tuple[LayerCost, ...]:
    """The four rows of Table 1.

    Args:
        n: length of the sequence.
        d: width.
        k: kernel of the convolution, at least 2.
        r: neighbourhood of restricted self-attention, at most n.

    Raises:
        ValueError: a number is too small, or r > n; names the flag.
    """
    for name, value, least in (("n", n, 1), ("d", d, 1), ("k", k, 2), ("r", r, 1)):
        if value < least:
            raise ValueError(f"--{name} is {value}; it must be at least {least}")
    if r > n:
        raise ValueError(f"--r {r} is no restriction of --n {n}: give a smaller neighbourhood")
    return (
        LayerCost("self-attention", "n^2 d", n * n * d, "1", 1, "1", 1.0),
        LayerCost("recurrent", "n d^2", n * d * d, "n", n, "n", float(n)),
        LayerCost("convolutional", "k n d^2", k * n * d * d, "1", 1, "log_k n", math.log(n, k)),
        LayerCost("self-attention (restricted)", "r n d", r * n * d, "1", 1, "n/r", n / r),
    )


def fitted_exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The exponent b of the power law a size^b, fitted to the points' logarithms by least squares.

    Args:
        sizes: at least two different positive numbers.
        values: a positive number for each of them.
    """
    x, y = [math.log(s) for s in sizes], [math.log(v) for v in values]
    return linear_regression(x, y).slope
