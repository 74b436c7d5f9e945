"""`vaswani complexity`: Table 1 with real numbers, and the same layers timed."""

import argparse
import json
from pathlib import Path
from typing import Any

from vaswani_plugin.cli._flags import add_format
from vaswani_plugin.figures.figures import check_plot_path, draw_layer_times
from vaswani_plugin.metrics.complexity import as_text, table_1

HELP = "Table 1: the operations of each layer type by formula, and its measured time"
EXAMPLE = "vaswani complexity --n 50 --d 512 --k 3 --r 16 --measure --plot layers.png"
LENGTHS, WIDTHS = [128, 256, 512, 1024, 2048], [64, 128, 256, 512, 1024]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    for name, default, what in (
        ("n", 50, "length of the sequence"),
        ("d", 512, "width of the layer"),
        ("k", 3, "kernel size of the convolution"),
        ("r", 16, "neighbourhood of restricted self-attention"),
    ):
        add(f"--{name}", type=int, default=default, help=f"{what} (default: %(default)s)")
    measure = "time real layers on one core, and fit how the time grows with n and d"
    add("--measure", action="store_true", help=measure)
    for flag, metavar, sizes, what in (
        ("--lengths", "N", LENGTHS, "lengths to time, at the median width"),
        ("--widths", "D", WIDTHS, "widths to time, at the median length"),
    ):
        what = f"with --measure: {what} (default: {' '.join(map(str, sizes))})"
        add(flag, type=int, nargs="+", metavar=metavar, help=what)
    add("--plot", type=Path, metavar="FILE", help="draw the times (needs --measure)")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table, time the layers if asked.

    Raises:
        ValueError: flags that don't fit, sizes that make no layer, or too few of them for a fit.
        OSError: the plot can't be written.
    """
    rows = table_1(args.n, args.d, args.k, args.r)
    result: dict[str, Any] = {name: getattr(args, name) for name in "ndkr"}
    result["layers"] = [vars(row) for row in rows]
    if args.plot and not args.measure:
        raise ValueError("--plot draws measured times: give --measure too")
    if (args.lengths or args.widths) and not args.measure:
        raise ValueError("--lengths and --widths are measured: give --measure too")
    if args.measure:
        lengths = check_sizes("--lengths", args.lengths or LENGTHS)
        widths = check_sizes("--widths", args.widths or WIDTHS)
        table_1(lengths[0], widths[0], args.k, args.r)
        if args.plot:
            check_plot_path(args.plot)
        from vaswani_plugin.figures.layer_timing import time_layers  # imports PyTorch

        result["measured"] = time_layers(lengths, widths, args.k, args.r)
    if args.plot:
        draw_layer_times(result["measured"], args.plot)
    if args.format == "json":
        print(json.dumps(result))
    else:
        print(as_text(result))
    return 0


def check_sizes(flag: str, sizes: list[int]) -> list[int]:
    """The sizes in order, each once.

    Raises:
        ValueError: fewer than two different sizes; the fit of a line needs two.
    """
    different = sorted(set(sizes))
    if len(different) < 2:
        raise ValueError(f"{flag}: give at least two different sizes, to see how time grows")
    return different
