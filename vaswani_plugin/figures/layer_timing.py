"""Measured times of Table 1's layers over the length of the sequence and over the width.

Axes: B batch (1), T positions, D width, R neighbourhood.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from vaswani_plugin.metrics.complexity import fitted_exponent
from vaswani_plugin.modules.attention import scaled_dot_product_attention
from vaswani_plugin.modules.masks import neighbourhood
from vaswani_plugin.modules.restricted import restricted_attention

REPETITIONS = 5
Layer = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class TimedLayer:
    """A kind of layer: `make` builds it for (n, d, k, r); its cost has these powers of n and d."""

    name: str
    formula: str
    make: Callable[[int, int, int, int], Layer]
    power_of_n: int
    power_of_d: int


def _self_attention(n: int, d: int, k: int, r: int) -> Layer:
    return lambda x: scaled_dot_product_attention(x, x, x)[0]


def _recurrent(n: int, d: int, k: int, r: int) -> Layer:
    layer = nn.LSTM(d, d, batch_first=True)
    return lambda x: layer(x)[0]


def _convolutional(n: int, d: int, k: int, r: int) -> Layer:
    layer = nn.Conv1d(d, d, k, padding="same")
    return lambda x: layer(x.transpose(1, 2))


def _restricted(n: int, d: int, k: int, r: int) -> Layer:
    """Without the projections, which cost n d^2: Table 1 counts the rest."""
    window = neighbourhood(r)
    return lambda x: restricted_attention(*(x[:, None],) * 3, window, 0.0, d**-0.5)[:, 0]


LAYERS = (
    TimedLayer("self-attention (Eq. 1)", "n^2 d", _self_attention, 2, 1),
    TimedLayer("recurrent (LSTM)", "n d^2", _recurrent, 1, 2),
    TimedLayer("convolutional", "k n d^2", _convolutional, 1, 2),
    TimedLayer("restricted, in blocks", "r n d", _restricted, 1, 1),
)


def seconds(layer: Layer, x: Tensor) -> float:
    """CPU seconds of the fastest of `REPETITIONS` forward passes, after a warm-up.

    CPU time is used instead of wall time because other programs may use the machine too.
    """
    times = []
    with torch.inference_mode():
        layer(x)
        for _ in range(REPETITIONS):
            start = time.process_time()
            layer(x)
            times.append(time.process_time() - start)
    return min(times)


def measure(sizes: list[tuple[int, int]], k: int, r: int) -> Iterator[list[float]]:
    """For each size (n, d) the seconds of each layer of `LAYERS` on one core.

    Afterwards PyTorch has as many threads as before.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for n, d in sizes:
            x = torch.randn(1, n, d, device="cpu")
            yield [seconds(layer.make(n, d, k, r), x) for layer in LAYERS]
    finally:
        torch.set_num_threads(threads)


def time_layers(lengths: list[int], widths: list[int], k: int, r: int) -> dict[str, Any]:
    """Times over the lengths and over the widths, with a fitted power law for each.

    The lengths are timed at the middle one of the widths, and the widths at the middle length.

    Args:
        lengths: values of n, ascending.
        widths: values of d, ascending.
        k: kernel of the convolution.
        r: neighbourhood of restricted attention.

    Returns:
        The key "measured" of the output of `vaswani complexity`; CPU seconds for one sequence,
        forward. A bar on stderr shows progress on a terminal.
    """
    n, d = lengths[len(lengths) // 2], widths[len(widths) // 2]
    sizes = [(length, d) for length in lengths] + [(n, width) for width in widths]
    # disable=None: a bar on a terminal only.
    rows = list(tqdm(measure(sizes, k, r), total=len(sizes), disable=None, leave=False))
    layers = []
    for layer, times in zip(LAYERS, zip(*rows, strict=True), strict=True):
        over_n, over_d = times[: len(lengths)], times[len(lengths) :]
        layers.append(
            {
                "layer": layer.name,
                "formula": layer.formula,
                "power_of_n": layer.power_of_n,
                "fitted_power_of_n": fitted_exponent(lengths, over_n),
                "power_of_d": layer.power_of_d,
                "fitted_power_of_d": fitted_exponent(widths, over_d),
                "seconds_over_n": over_n,
                "seconds_over_d": over_d,
            }
        )
    return {"n": n, "d": d, "lengths": lengths, "widths": widths, "layers": layers}
