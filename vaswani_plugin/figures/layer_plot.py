"""A plot of the times of Table 1's layers."""

from pathlib import Path
from typing import Any

from vaswani_plugin.figures.figures import new_figure, save_figure


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
        for layer, marker in zip(times["layers"], "osv^DxP", strict=True):
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
