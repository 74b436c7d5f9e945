"""Table 1: paths by walking through the layers."""

import math

import pytest

from vaswani_plugin.metrics.complexity import layers_to_join, table_1


@pytest.mark.parametrize(("n", "k"), [(81, 3), (128, 2), (126, 5)])
def test_path_of_convolutions_by_walking(n: int, k: int) -> None:
    # Dilated by k^layer, a position sees k times as many in each further layer.
    seen, layers = 1, 0
    while seen < n:
        seen, layers = seen * k, layers + 1
    assert math.ceil(table_1(n, 8, k, 1)[2].path_length - 1e-9) == layers
    assert layers_to_join(n, k) == layers
