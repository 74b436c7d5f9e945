"""Plots by matplotlib (the extra "plots"), without a screen; files are written atomically."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaswani_plugin.text.outputs import write_bytes_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_plot_path(path: Path) -> None:
    """Check that a plot can be written, before its values are computed.

    Raises:
        ValueError: matplotlib is not installed, or it knows no pictures with this suffix.
    """
    figure = new_figure(1, 1)
    known = figure.canvas.get_supported_filetypes()
    if path.suffix[1:] not in known:
        raise ValueError(f"{path}: a plot ends in .png or .svg (or {', '.join(sorted(known))})")


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure.

    Args:
        width, height: in inches.

    Raises:
        ValueError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ValueError("plots need matplotlib: pip install matplotlib") from error
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as `write_bytes_atomically` does: after an error there is no partial file.

    Raises:
        OSError: the file can't be written.
    """
    with write_bytes_atomically(path) as output:
        figure.savefig(output, format=path.suffix[1:], dpi=150)


def draw_layer_times(times: dict[str, Any], path: Path) -> None:
    """Draw two log-log panels, time over n and time over d; a straight line is a power law.

    Args:
        times: the result of `layer_timing.time_layers`.
        path: of the picture.

    Raises:
        OSError: the plot can't be written.
    """
    figure = new_figure(11, 4.5)
    panels = figure.subplots(1, 2)
    for panel, axis, sizes, fixed in zip(
        panels, "nd", (times["lengths"], times["widths"]), ("d", "n"), strict=True
    ):
        for layer, marker in zip(times["layers"], "osv^", strict=True):
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
