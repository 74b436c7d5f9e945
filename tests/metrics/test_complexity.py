"""Table 1: the formulas by hand, and by walking through the layers; the fit of a power."""

import math

import numpy
import pytest

from vaswani_plugin.metrics.complexity import fitted_exponent, layers_to_join, table_1


def test_table_1_by_hand() -> None:
    rows = table_1(n=50, d=512, k=3, r=16)
    numbers = [(row.layer, row.operations, row.sequential_operations) for row in rows]
    assert numbers == [
        ("self-attention", 1_280_000, 1),
        ("recurrent", 13_107_200, 50),
        ("convolutional", 39_321_600, 1),
        ("self-attention (restricted)", 409_600, 1),
    ]
    paths = [row.path_length for row in rows]
    assert paths == pytest.approx([1, 50, math.log(50) / math.log(3), 3.125])
    formulas = [(r.operations_formula, r.sequential_formula, r.path_formula) for r in rows]
    assert formulas == [
        ("n^2 d", "1", "1"),
        ("n d^2", "n", "n"),
        ("k n d^2", "1", "log_k n"),
        ("r n d", "1", "n/r"),
    ]


@pytest.mark.parametrize(("n", "k"), [(81, 3), (128, 2), (125, 5), (625, 5), (126, 5)])
def test_path_of_convolutions_by_walking(n: int, k: int) -> None:
    # Dilated by k^layer, a position sees k times as many in each further layer.
    seen, layers = 1, 0
    while seen < n:
        seen, layers = seen * k, layers + 1
    assert math.ceil(table_1(n, 8, k, 1)[2].path_length - 1e-9) == layers
    assert layers_to_join(n, k) == layers


def test_power_is_found_again() -> None:
    sizes = [3, 10, 40, 1000]
    assert fitted_exponent(sizes, [7 * s**1.5 for s in sizes]) == pytest.approx(1.5)
    assert fitted_exponent([10, 20], [5, 5]) == pytest.approx(0.0)
    # Points off the line: least squares over the logarithms.
    sizes, values = [1.0, 3.0, 7.0, 30.0, 31.0], [2.0, 1.5, 9.0, 40.0, 12.0]
    slope, _ = numpy.polyfit(numpy.log(sizes), numpy.log(values), 1)
    assert fitted_exponent(sizes, values) == pytest.approx(slope)
