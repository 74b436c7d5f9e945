"""Training curves of several runs from fairseq's logs: as JSON, as a table, as a picture."""

import math
from pathlib import Path
from typing import Any

from vaswani_plugin.errors import UserError
from vaswani_plugin.figures.figures import new_figure, save_figure
from vaswani_plugin.files.lines import read_lines
from vaswani_plugin.text.training_log import LOG_OF_RECIPE, Curve, read_curves

SERIES = {
    "loss": ("loss (bits)", min),
    "ppl": ("perplexity", min),
    "lr": ("learning rate", None),
    "wps": ("target tokens/s", max),
    "gnorm": ("gradient norm", None),
    "bleu": ("BLEU", max),
    "chrf": ("chrF", max),
}  # by field of fairseq's statistics: label of its axis, which value is best

OF_VALIDATION = ("loss", "ppl", "bleu", "chrf")  # not its speed or learning rate
LOGS = (LOG_OF_RECIPE, "logs/train*.log", "train.log", "*/train.log", "trainings/*/train.log")
"""Where the folders of recipes and of experiments have their logs."""
COSTS = ("FLOPs", "minutes")

Run = dict[str, Any]
"""A training: `label` in the legend, `log`, and `series` by key, such as "loss" or "valid loss"."""


def logs_of(path: Path) -> list[Path]:
    """The logs of a recipe's or an experiment's folder; a file is one itself."""
    if not path.is_dir():
        return [path]
    for pattern in LOGS:
        if logs := sorted(path.glob(pattern)):
            return logs
    remedy = f"TensorBoard shows its own files: tensorboard --logdir {path}"
    raise UserError(f"{path}: no {LOG_OF_RECIPE} of a recipe in it; {remedy}")


def read_run(log: Path, label: str | None, names: list[str]) -> Run:
    """Reads a run from a log.

    `names` are keys of `SERIES`; loss and perplexity of validation are added. A series has
    `updates` and `y`, of equal length, its first, best and last value, and the number of values
    that are not finite, which are None. Without a label the path gives it.
    """
    curves = read_curves(read_lines(log, returns_inside=True), str(log))
    # Log intervals are finer than epochs, but a short run logs epochs alone.
    training = curves.pop("train_inner", curves.pop("train", []))
    series = {}
    for subset, curve in {"": training, **curves}.items():
        for name in names if not subset else [name for name in names if name in OF_VALIDATION]:
            if points := [point for point in curve if name in point]:
                series[f"{subset} {name}".strip()] = _series(points, name)
    if label is None:
        parts = [part for part in log.resolve().parts if part not in ("logs", "train.log")]
        label = parts[-1].removesuffix(".log")  # NAME of work/NAME/logs/train.log
    return {"label": label, "log": str(log), "series": series}


def _series(points: Curve, name: str) -> dict[str, Any]:
    """A series over updates: the values, and the first, the best and the last of them."""
    updates = [int(point["num_updates"]) for point in points]
    values = [point[name] if math.isfinite(point[name]) else None for point in points]
    finite = [(v, u) for v, u in zip(values, updates, strict=True) if v is not None]
    best_of = SERIES[name][1]
    best = best_of(finite, key=lambda pair: pair[0]) if best_of and finite else (None, None)
    series = {"first": values[0], "best": best[0], "best_update": best[1], "last": values[-1]}
    series |= {"last_update": updates[-1], "not_finite": len(values) - len(finite)}
    return series | {"updates": updates, "y": values}


def as_text(runs: list[Run]) -> str:
    """A table of the first, the best and the last value of each run and series."""
    from tabulate import tabulate

    rows, remarks = [], []
    for run in runs:
        for number, (key, one) in enumerate(run["series"].items()):
            row = ["" if number else run["label"], key, _shown(one["first"]), _shown(one["best"])]
            row += [one["best_update"] or "", _shown(one["last"]), one["last_update"]]
            rows.append(row)
            if one["not_finite"]:
                count = f"{one['not_finite']} of {len(one['y'])}"
                remarks.append(f"{run['label']}: {key}: {count} values are no finite numbers")
    header = ["run", "series", "first", "best", "at update", "last", "of update"]
    aligned = ("left", "left", *["right"] * 5)
    return "\n".join([tabulate(rows, header, disable_numparse=True, colalign=aligned), *remarks])


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def draw(runs: list[Run], names: list[str], path: Path) -> None:
    """Draws one panel a series and one colour a run; validation has dots, training a thin line."""
    columns = min(len(names), 3)
    rows = math.ceil(len(names) / columns)
    figure = new_figure(1 + 4 * columns, 3.4 * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for name, panel in zip(names, panels, strict=False):
        for number, run in enumerate(runs):
            shown = {key: one for key, one in run["series"].items() if key.split()[-1] == name}
            for key, one in shown.items():
                subset = key.removesuffix(name).strip()
                style = {"marker": "o", "markersize": 3} if subset else {"linewidth": 1.2}
                style["alpha"] = 0.45 if len(shown) > 1 and not subset else 1.0
                label = f"{run['label']}, {subset}" if subset else run["label"]
                y = [math.nan if value is None else value for value in one["y"]]
                panel.plot(one["updates"], y, color=f"C{number % 10}", label=label, **style)
        panel.set_xlabel("updates")
        panel.set_title(SERIES[name][0], fontsize=10)
        if name == "ppl":
            from matplotlib.ticker import LogFormatter

            panel.set_yscale("log")
            panel.yaxis.set_major_formatter(LogFormatter())
            panel.yaxis.set_minor_formatter(LogFormatter())  # 600, not 6 x 10^2
        panel.grid(alpha=0.3)
        if len(panel.lines) > 1 or (panel.lines and len(runs) > 1):
            panel.legend(fontsize=8)
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    save_figure(figure, path)


def draw_costs(curves: dict[str, list[list[dict[str, float]]]], path: Path) -> None:
    """Draws BLEU over FLOPs and over minutes: a colour a name, a line a training of its list."""
    figure = new_figure(10, 4)
    for cost, panel in zip(COSTS, figure.subplots(1, 2), strict=True):
        for number, (name, runs) in enumerate(curves.items()):
            for seed, points in enumerate(runs):
                x, y = ([point[key] for point in points] for key in (cost, "BLEU"))
                style = {"color": f"C{number}", "linestyle": "--" if seed else "-", "marker": "."}
                panel.plot(x, y, label=None if seed else name, **style)
        panel.set(xlabel=f"{cost} of training", ylabel="BLEU, validation set")
        panel.grid(alpha=0.3)
    figure.axes[0].set_xscale("log")
    panel.legend(fontsize=8)
    save_figure(figure, path)
