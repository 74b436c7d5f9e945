"""Training curves of several runs: as JSON, as a table, as a picture."""

import math
from pathlib import Path
from typing import Any

from tabulate import tabulate

from vaswani_plugin.figures.curve_series import AXES, SERIES
from vaswani_plugin.figures.curves import Run
from vaswani_plugin.figures.figures import new_figure, save_figure


def _belongs(key: str, name: str) -> bool:
    """Whether a key, such as "loss" or "valid loss", belongs to the series `name`, here "loss"."""
    return key.split()[-1] == name


def as_json(runs: list[Run], axis: str) -> dict[str, Any]:
    """All curves, with None for numbers that aren't finite."""
    return {
        "x": axis,
        "runs": [
            {
                "label": each.label,
                "log": each.log,
                "series": {
                    key: series.summary(SERIES[key.split()[-1]][1])
                    | {
                        "updates": series.updates,
                        "x": series.x,
                        "y": [v if math.isfinite(v) else None for v in series.values],
                    }
                    for key, series in each.series.items()
                },
            }
            for each in runs
        ],
    }


def as_text(runs: list[Run]) -> str:
    """A table of the first, the best and the last value of each run and series."""
    rows, remarks = [], []
    for each in runs:
        for number, (key, series) in enumerate(each.series.items()):
            found = series.summary(SERIES[key.split()[-1]][1])
            rows.append(
                {
                    "run": "" if number else each.label,
                    "series": key,
                    "first": _shown(series.values[0]),
                    "best": _shown(found["best"]),
                    "at update": "" if found["best_update"] is None else found["best_update"],
                    "last": _shown(series.values[-1]),
                    "of update": found["last_update"],
                }
            )
            if found["not_finite"]:
                remarks.append(
                    f"{each.label}: {key}: {found['not_finite']} of {len(series.values)} values "
                    "are no finite numbers"
                )
    aligned = ("left", "left", *["right"] * 5)
    table = tabulate(rows, headers="keys", disable_numparse=True, colalign=aligned)
    return "\n".join([table, *remarks])


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def draw(runs: list[Run], names: list[str], axis: str, path: Path) -> None:
    """Draw one panel a series and one colour a run; validation has dots, training a thin line.

    Raises:
        OSError: the picture can't be written.
    """
    from matplotlib.ticker import EngFormatter

    columns = min(len(names), 3)
    rows = math.ceil(len(names) / columns)
    figure = new_figure(1 + 4 * columns, 3.4 * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for name, panel in zip(names, panels, strict=False):
        for number, each in enumerate(runs):
            for key, series in each.series.items():
                if not _belongs(key, name):
                    continue
                validation = key != name
                subset = f", {key.split()[0]}" if validation else ""
                style = {"marker": "o", "markersize": 3} if validation else {"linewidth": 1.2}
                paired = not validation and any(
                    _belongs(k, name) and k != name for k in each.series
                )
                panel.plot(
                    *(series.x, series.values),
                    color=f"C{number % 10}",
                    alpha=0.45 if paired else 1.0,
                    label=each.label + subset,
                    **style,
                )
        panel.set_xlabel(AXES[axis])
        panel.set_title(SERIES[name][0], fontsize=10)
        if name == "ppl":
            panel.set_yscale("log")
        if axis == "tokens":
            panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        panel.grid(alpha=0.3)
        if panel.lines and (len(runs) > 1 or len(panel.lines) > 1):
            panel.legend(fontsize=8)
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    save_figure(figure, path)
