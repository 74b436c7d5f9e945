"""Plots by matplotlib (the extra "plots"), without a screen; files are written atomically."""

from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_plugin.errors import UserError, optional
from vaswani_plugin.files.outputs import write_bytes_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_plot_path(path: Path) -> None:
    """Check that a plot can be written, before its values are computed."""
    known = new_figure(1, 1).canvas.get_supported_filetypes()
    if path.suffix[1:] not in known:
        raise UserError(f"{path}: a plot ends in .png or .svg (or {', '.join(sorted(known))})")


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure; its sides are in inches."""
    library = optional("matplotlib.figure", "matplotlib")
    figure: Figure = library.Figure(figsize=(width, height), layout="constrained")
    return figure


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as `write_bytes_atomically` does: after an error there is no partial file."""
    with write_bytes_atomically(path) as output:
        figure.savefig(output, format=path.suffix[1:], dpi=150)
