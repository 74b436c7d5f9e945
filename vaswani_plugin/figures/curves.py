"""Training curves of several runs from fairseq's logs: as JSON, as a table, as a picture."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaswani_plugin.figures.figures import new_figure, save_figure
from vaswani_plugin.text.lines import read_lines
from vaswani_plugin.text.training_log import LOG_OF_RECIPE, Curve, read_curves

SERIES = {
    "loss": ("loss (bits)", min),
    "ppl": ("perplexity", min),
    "lr": ("learning rate", None),
    "wps": ("target tokens/s", max),
    "gnorm": ("gradient norm", None),
}
"""By field of fairseq's statistics: label of its axis, which value is best."""
AXES = {"updates": "updates", "time": "hours"}


@dataclass
class Series:
    """A curve of a run: positions `x` on the axis, `updates` and `values`, of equal length.

    name is a key of `SERIES`; subset is "valid" or the like, empty for training.
    """

    name: str
    subset: str
    x: list[float]
    updates: list[int]
    values: list[float]

    @property
    def key(self) -> str:
        """Such as "loss" or "valid loss"."""
        return f"{self.subset} {self.name}".strip()

    def summary(self) -> dict[str, Any]:
        """First, best and last value and their updates; None where there is no best."""
        pairs = zip(self.values, self.updates, strict=True)
        finite = [(value, update) for value, update in pairs if math.isfinite(value)]
        best_of = SERIES[self.name][1]
        best = best_of(finite, key=lambda pair: pair[0]) if best_of and finite else (None, None)
        return {
            "first": _finite(self.values[0]),
            "best": best[0],
            "best_update": best[1],
            "last": _finite(self.values[-1]),
            "last_update": self.updates[-1],
            "not_finite": len(self.values) - len(finite),
        }


@dataclass
class Run:
    """A training: its name in the legend, its file, and its curves."""

    label: str
    log: str
    series: list[Series]


def read_run(path: Path, label: str | None, names: list[str], axis: str) -> Run:
    """Reads a run from a log or a recipe's work folder.

    Args:
        path: of the log.
        label: in the legend; None: from the path.
        names: keys of `SERIES`; loss and perplexity of validation are added.
        axis: a key of `AXES`.

    Raises:
        ValueError: the log has no statistics, or not those that the axis needs.
        OSError: the log can't be read.
    """
    log = path / LOG_OF_RECIPE if (path / LOG_OF_RECIPE).is_file() else path
    if log.is_dir():
        raise ValueError(
            f"{path}: no {LOG_OF_RECIPE} of a recipe in it; TensorBoard shows its own files: "
            f"tensorboard --logdir {path}"
        )
    curves = read_curves(read_lines(log, returns_inside=True), str(log))
    # Log intervals are finer than epochs, but a short run logs epochs alone.
    epochs = curves.pop("train", [])
    training = curves.pop("train_inner", epochs)
    anchors = sorted([*training, *epochs], key=lambda point: point["num_updates"])
    series = []
    for subset, curve in {"": training, **curves}.items():
        # Only loss and perplexity of validation are curves, not its speed or learning rate.
        for name in names if not subset else [name for name in names if name in ("loss", "ppl")]:
            points = [point for point in curve if name in point]
            if points:
                updates = [int(point["num_updates"]) for point in points]
                x = _hours(updates, anchors, str(log)) if axis == "time" else [*map(float, updates)]
                series.append(Series(name, subset, x, updates, [point[name] for point in points]))
    if label is None:
        parts = [part for part in path.resolve().parts if part not in ("logs", "train.log")]
        label = parts[-1].removesuffix(".log")  # NAME of work/NAME/logs/train.log
    return Run(label, str(log), series)


def _hours(updates: list[int], anchors: Curve, name: str) -> list[float]:
    """The times of updates, interpolated between the updates that training logged."""
    import numpy as np

    known = [point for point in anchors if "seconds" in point]
    if not known:
        raise ValueError(f"{name}: --x time: this log doesn't tell it; take --x updates")
    at = [0.0, *(point["num_updates"] for point in known)]
    return np.interp(updates, at, [0.0, *(point["seconds"] / 3600 for point in known)]).tolist()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_json(runs: list[Run], axis: str) -> dict[str, Any]:
    """All curves, with None for numbers that aren't finite."""
    return {
        "x": axis,
        "runs": [
            {
                "label": each.label,
                "log": each.log,
                "series": {
                    one.key: one.summary()
                    | {"updates": one.updates, "x": one.x, "y": [*map(_finite, one.values)]}
                    for one in each.series
                },
            }
            for each in runs
        ],
    }


def as_text(runs: list[Run]) -> str:
    """A table of the first, the best and the last value of each run and series."""
    from tabulate import tabulate

    rows, remarks = [], []
    for each in runs:
        for number, one in enumerate(each.series):
            found = one.summary()
            row = ["" if number else each.label, one.key, _shown(one.values[0])]
            row += [_shown(found["best"]), found["best_update"] or "", _shown(one.values[-1])]
            rows.append([*row, found["last_update"]])
            if found["not_finite"]:
                remarks.append(
                    f"{each.label}: {one.key}: {found['not_finite']} of {len(one.values)} values "
                    "are no finite numbers"
                )
    header = ["run", "series", "first", "best", "at update", "last", "of update"]
    aligned = ("left", "left", *["right"] * 5)
    return "\n".join([tabulate(rows, header, disable_numparse=True, colalign=aligned), *remarks])


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def draw(runs: list[Run], names: list[str], axis: str, path: Path) -> None:
    """Draws one panel a series and one colour a run; validation has dots, training a thin line.

    Raises:
        OSError: the picture can't be written.
    """
    columns = min(len(names), 3)
    rows = math.ceil(len(names) / columns)
    figure = new_figure(1 + 4 * columns, 3.4 * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for name, panel in zip(names, panels, strict=False):
        for number, each in enumerate(runs):
            shown = [one for one in each.series if one.name == name]
            for one in shown:
                style = {"marker": "o", "markersize": 3} if one.subset else {"linewidth": 1.2}
                style["alpha"] = 0.45 if len(shown) > 1 and not one.subset else 1.0
                label = f"{each.label}, {one.subset}" if one.subset else each.label
                panel.plot(one.x, one.values, color=f"C{number % 10}", label=label, **style)
        panel.set_xlabel(AXES[axis])
        panel.set_title(SERIES[name][0], fontsize=10)
        if name == "ppl":
            panel.set_yscale("log")
        panel.grid(alpha=0.3)
        if len(panel.lines) > 1 or (panel.lines and len(runs) > 1):
            panel.legend(fontsize=8)
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    save_figure(figure, path)
