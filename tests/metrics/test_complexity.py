"""Table 1: paths by walking through the layers, and powers of measured times."""

import math

import numpy
import pytest

from vaswani_plugin.metrics.complexity import fitted_exponent, layers_to_join, table_1


@pytest.mark.parametrize(("n", "k"), [(81, 3), (128, 2), (126, 5)])
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
