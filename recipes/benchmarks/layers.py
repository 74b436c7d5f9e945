"""Table 1 by the clock: seconds of each kind of layer over the length n and over the width d.

    python recipes/benchmarks/layers.py --k 3 --r 16 --plot table1.png

One sequence, forward, on one core. Over n the width is the middle one of --widths, over d the
length is the middle one of --lengths. A power law is fitted to each row. CPU time is taken, because
other programs may use the machine too.
"""

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path
from statistics import linear_regression

import torch
from tabulate import tabulate
from torch import Tensor, nn

from vaswani_plugin.figures.figures import new_figure, save_figure
from vaswani_plugin.files.programs import run
from vaswani_plugin.kernels.attention import restricted_attention
from vaswani_plugin.modules.attention import neighbourhood, scaled_dot_product_attention

REPETITIONS = 5


def make_layers(d: int, k: int, r: int) -> dict[str, Callable[[Tensor], Tensor]]:
    """The layers of Table 1 without projections, by name and formula."""
    lstm, convolution = nn.LSTM(d, d, batch_first=True), nn.Conv1d(d, d, k, padding="same")
    window = neighbourhood(r)

    def restricted(x: Tensor) -> Tensor:
        heads = x[:, None]
        return restricted_attention(heads, heads, heads, window, 0.0, d**-0.5)

    return {
        "self-attention (Eq. 1): n^2 d": lambda x: scaled_dot_product_attention(x, x, x)[0],
        "recurrent (LSTM): n d^2": lambda x: lstm(x)[0],
        "convolutional: k n d^2": lambda x: convolution(x.transpose(1, 2)),
        "restricted, in blocks: r n d": restricted,
    }


def seconds(layer: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """The fastest of some forward passes, after one that doesn't count."""
    times = []
    with torch.inference_mode():
        layer(x)
        for _ in range(REPETITIONS):
            start = time.process_time()
            layer(x)
            times.append(time.process_time() - start)
    return min(times)


def measure(sizes: list[tuple[int, int]], k: int, r: int) -> dict[str, list[float]]:
    """By layer, its seconds at each (n, d)."""
    times: dict[str, list[float]] = {}
    for n, d in sizes:
        x = torch.randn(1, n, d)
        for name, layer in make_layers(d, k, r).items():
            times.setdefault(name, []).append(seconds(layer, x))
    return times


def fitted_power(sizes: list[int], times: list[float]) -> float:
    """The exponent b of a size^b, by least squares over the logarithms."""
    return linear_regression(list(map(math.log, sizes)), list(map(math.log, times))).slope


def draw(result: dict[str, dict], path: Path) -> None:
    """Two panels, over n and over d, both axes logarithmic."""
    figure = new_figure(11, 4.5)
    for panel, (axis, part) in zip(figure.subplots(1, 2), result.items(), strict=True):
        for (name, times), marker in zip(part["seconds"].items(), "osv^", strict=True):
            label = f"{name.partition(':')[0]}: {axis}^{part['powers'][name]:.2f}"
            panel.loglog(part["sizes"], [1000 * s for s in times], marker=marker, label=label)
        panel.set(xlabel=axis, ylabel="milliseconds")
        panel.legend(fontsize=8)
    save_figure(figure, path)


def main(argv: list[str] | None = None) -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    add = parser.add_argument
    add("--lengths", type=int, nargs="+", default=[128, 256, 512, 1024, 2048], metavar="N")
    add("--widths", type=int, nargs="+", default=[64, 128, 256, 512, 1024], metavar="D")
    add("--k", type=int, default=3, help="kernel of the convolution (default: 3)")
    add("--r", type=int, default=16, help="neighbourhood of restricted attention (default: 16)")
    add("--plot", type=Path, help="draw the times")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    lengths, widths = args.lengths, args.widths
    n, d = lengths[len(lengths) // 2], widths[len(widths) // 2]
    result = {}
    for axis, sizes in {"n": lengths, "d": widths}.items():
        seconds_of = measure([(x, d) if axis == "n" else (n, x) for x in sizes], args.k, args.r)
        powers = {name: fitted_power(sizes, times) for name, times in seconds_of.items()}
        result[axis] = {"sizes": sizes, "seconds": seconds_of, "powers": powers}
        rows = [[name, *(1000 * s for s in seconds_of[name]), powers[name]] for name in seconds_of]
        headers = [f"ms at {axis}", *map(str, sizes), f"power of {axis}"]
        print(tabulate(rows, headers, floatfmt=".3g"), end="\n\n")
    if args.plot:
        draw(result, args.plot)


if __name__ == "__main__":
    run(main)
