"""`vaswani complexity`: Table 1 with real numbers, and the same layers timed."""

import argparse
import json
import math
from pathlib import Path
from typing import Any

from vaswani_plugin.cli._figures import check_plot_path, new_figure, save_figure
from vaswani_plugin.metrics.complexity import LayerCost, fitted_exponent, table_1

HELP = "Table 1: what each kind of layer costs, by formula and by the clock"
EXAMPLE = "vaswani complexity --n 50 --d 512 --k 3 --r 16 --measure --plot layers.png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    for name, default, what in (
        ("n", 50, "length of the sequence"),
        ("d", 512, "width of the layer"),
        ("k", 3, "kernel of the convolution"),
        ("r", 16, "neighbourhood of restricted self-attention"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{what} (default: %(default)s)"
        )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="time real layers on one core and fit the powers of n and d",
    )
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        metavar="N",
        help="lengths to time, at the middle one of the widths",
        default=[128, 256, 512, 1024, 2048],
    )
    parser.add_argument(
        "--widths",
        type=int,
        nargs="+",
        metavar="D",
        help="widths to time, at the middle one of the lengths",
        default=[64, 128, 256, 512, 1024],
    )
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the times (needs --measure)")
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(args: argparse.Namespace) -> int:
    """Print the table, time the layers if asked.

    Raises:
        ValueError: sizes that make no layer, or too few of them for a fit.
        OSError: the plot can't be written.
    """
    rows = table_1(args.n, args.d, args.k, args.r)
    result: dict[str, Any] = {name: getattr(args, name) for name in "ndkr"}
    result["layers"] = [vars(row) for row in rows]
    if args.plot and not args.measure:
        raise ValueError("--plot draws measured times: give --measure too")
    if args.measure:
        lengths = check_sizes("--lengths", args.lengths)
        widths = check_sizes("--widths", args.widths)
        table_1(lengths[0], widths[0], args.k, args.r)
        if args.plot:
            check_plot_path(args.plot)
        result["measured"] = measured(lengths, widths, args.k, args.r)
    if args.plot:
        draw(result["measured"], args.plot)
    print(json.dumps(result) if args.format == "json" else as_text(args, rows, result))
    return 0


def check_sizes(flag: str, sizes: list[int]) -> list[int]:
    """The sizes in order, each once.

    Raises:
        ValueError: fewer than two different ones, through which no line can be laid.
    """
    different = sorted(set(sizes))
    if len(different) < 2:
        raise ValueError(f"{flag}: give at least two different sizes, to see how time grows")
    return different


def measured(lengths: list[int], widths: list[int], k: int, r: int) -> dict[str, Any]:
    """Times over the lengths and over the widths, and the power of each that they follow.

    Returns:
        The key "measured" of the JSON output; CPU seconds for one sequence, forward.
    """
    from tqdm import tqdm

    from vaswani_plugin.cli._layer_timing import LAYERS, measure  # imports PyTorch

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


def draw(times: dict[str, Any], path: Path) -> None:
    """Two log-log panels, time over n and time over d; a straight line is a power law.

    Raises:
        OSError: the plot can't be written.
    """
    figure = new_figure(11, 4.5)
    panels = figure.subplots(1, 2)
    for panel, axis, sizes, fixed in zip(
        panels, "nd", (times["lengths"], times["widths"]), ("d", "n"), strict=True
    ):
        for layer, marker in zip(times["layers"], "osv^Dx", strict=True):
            power = layer[f"fitted_power_of_{axis}"]
            label = f"{layer['layer']}: {axis}^{power:.2f}"
            seconds = layer[f"seconds_over_{axis}"]
            panel.loglog(sizes, [1000 * s for s in seconds], marker=marker, label=label)
        panel.set_xlabel(f"{axis} ({fixed} = {times[fixed]})")
        panel.set_xticks(sizes, [str(size) for size in sizes])
        panel.minorticks_off()
        panel.set_ylabel("milliseconds")
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    save_figure(figure, path)


def as_text(args: argparse.Namespace, rows: tuple[LayerCost, ...], result: dict[str, Any]) -> str:
    """The tables for people."""
    from tabulate import tabulate

    table = [
        {
            "layer": row.layer,
            "complexity per layer": f"{row.operations_formula} = {row.operations:,}",
            "sequential operations": _number(row.sequential_formula, row.sequential_operations),
            "maximum path length": _number(row.path_formula, row.path_length),
        }
        for row in rows
    ]
    lines = [f"n {args.n}, d {args.d}, k {args.k}, r {args.r}; constants left out, as in O(.)"]
    lines += [tabulate(table, headers="keys", disable_numparse=True), ""]
    lines.append(
        f"Self-attention costs {args.n / args.d:.3g} times what the recurrent layer does (n / d), "
        f"{args.n / args.r:.3g} times what the restricted one does (n / r). A convolution needs "
        f"{math.ceil(rows[2].path_length)} layers to join all positions."
    )
    if "measured" in result:
        lines += ["", _measured_text(result["measured"])]
    return "\n".join(lines)


def _number(formula: str, value: float) -> str:
    return formula if formula == "1" else f"{formula} = {value:,.3g}"


def _measured_text(times: dict[str, Any]) -> str:
    from tabulate import tabulate

    table = [
        {
            "layer": layer["layer"],
            "formula": layer["formula"],
            f"ms at n {times['lengths'][0]}": 1000 * layer["seconds_over_n"][0],
            f"at n {times['lengths'][-1]}": 1000 * layer["seconds_over_n"][-1],
            "power of n": layer["fitted_power_of_n"],
            f"ms at d {times['widths'][0]}": 1000 * layer["seconds_over_d"][0],
            f"at d {times['widths'][-1]}": 1000 * layer["seconds_over_d"][-1],
            "power of d": layer["fitted_power_of_d"],
        }
        for layer in times["layers"]
    ]
    return (
        f"Measured on one core, one sequence, forward; n varies at d {times['d']}, d at n "
        f"{times['n']}; powers fitted:\n" + tabulate(table, headers="keys", floatfmt=".3g")
    )
