"""`vaswani positions`: the positional encoding (section 3.5) and its products by distance."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_plugin.cli._flags import add_format
from vaswani_plugin.figures.figures import check_plot_path, new_figure, save_figure

if TYPE_CHECKING:
    import numpy as np

HELP = "section 3.5: the positional encoding as a heat map, and dot products by distance"
EXAMPLE = "vaswani positions --length 100 --d-model 512 --plot positions.png"
SHOWN = (0, 1, 2, 5, 10, 20, 50)
"""Distances of the printed products."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    add("--length", type=int, default=100, help="number of positions (default: %(default)s)")
    add(
        "--d-model", type=int, default=512, help="dimensions of the encoding (default: %(default)s)"
    )
    add("--plot", type=Path, metavar="FILE", help="draw the heat maps")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the products of positions by their distance; draw both if asked.

    Raises:
        ValueError: there is no encoding of these sizes.
        OSError: the plot can't be written.
    """
    if args.length < 2:
        raise ValueError(f"--length is {args.length}; it must be at least 2")
    if args.d_model % 2 or args.d_model < 2:
        raise ValueError(f"--d-model is {args.d_model}; it must be even and at least 2")
    if args.plot is not None:
        check_plot_path(args.plot)
    table = make_table(args.length, args.d_model)
    by_distance = {k: float(table[0] @ table[k]) / args.d_model for k in SHOWN if k < args.length}
    if args.plot is not None:
        draw(table, args.plot)
    if args.format == "json":
        sizes = {"length": args.length, "d_model": args.d_model}
        print(json.dumps({**sizes, "product_by_distance": by_distance, "table": table.tolist()}))
        return 0
    print(f"{args.length} positions, d_model {args.d_model}")
    print("PE(pos) . PE(pos + k) / d_model, the same for every pos:")
    for distance, product in by_distance.items():
        print(f"  k {distance:>3}  {product:.4f}")
    return 0


def make_table(length: int, d_model: int) -> "np.ndarray":
    """The encoding of the positions 0, 1, ..., (length, d_model), float64."""
    import torch

    from vaswani_plugin.modules.positions import sinusoids

    return sinusoids(torch.arange(length, device="cpu"), d_model).numpy()


def draw(table: "np.ndarray", path: Path) -> None:
    """Two heat maps: the encoding (T, D), and the products (T, T) of all pairs of positions.

    Raises:
        OSError: the picture can't be written.
    """
    figure = new_figure(11, 4.5)
    left, right = figure.subplots(1, 2)
    drawn = left.imshow(table, aspect="auto", cmap="RdBu", vmin=-1, vmax=1)
    left.set(xlabel="dimension", ylabel="position", title="PE(pos, i)")
    figure.colorbar(drawn, ax=left)
    drawn = right.imshow(table @ table.T / table.shape[1], cmap="viridis")
    right.set(xlabel="position", ylabel="position", title="PE(a) . PE(b) / d_model")
    figure.colorbar(drawn, ax=right)
    save_figure(figure, path)
