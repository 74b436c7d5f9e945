"""Table 1: the formulas by hand, and by walking through the layers. Table 2: its costs."""

import math

import numpy
import pytest

from vaswani_plugin.metrics.complexity import fitted_exponent, layers_to_join, table_1
from vaswani_plugin.metrics.cost import TABLE_2, paper_trainings


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


def test_the_papers_figures_from_their_inputs() -> None:
    base, big = paper_trainings()
    assert base["flops"] == pytest.approx(12 * 3600 * 8 * 9.5e12)
    assert big["flops"] == pytest.approx(3.5 * 86400 * 8 * 9.5e12)
    # As printed: two digits.
    assert [f"{row['flops']:.1e}" for row in (base, big)] == ["3.3e+18", "2.3e+19"]
    rows = {row.model: row for row in TABLE_2}
    for row in (base, big):
        assert rows[row["model"]].flops_en_de == row["printed_flops"]
