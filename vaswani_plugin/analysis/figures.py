"""Plots of the commands: matplotlib (the extra "plots") without a screen, files written whole."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_plot_path(path: Path) -> None:
    """Refuse a plot that can't be written, before the work that it shows is done.

    Raises:
        ValueError: matplotlib is not installed, or it knows no pictures with this suffix.
        OSError: there is no such folder.
    """
    figure = new_figure(1, 1)
    known = figure.canvas.get_supported_filetypes()
    if path.suffix[1:] not in known:
        raise ValueError(f"{path}: a plot ends in .png or .svg (or {', '.join(sorted(known))})")
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "No such folder", str(path.parent))


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure, sizes in inches.

    Raises:
        ValueError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ValueError(
            "plots need matplotlib: install it with pip install 'vaswani-plugin[plots]'"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure; its file is complete or not there.

    Raises:
        OSError: it can't be written.
    """
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        partial = Path(folder, path.name)
        figure.savefig(partial, dpi=150)
        os.replace(partial, path)
