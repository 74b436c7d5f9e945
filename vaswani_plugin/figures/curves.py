"""Training curves from any log of fairseq's, over updates, time or tokens."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vaswani_plugin.figures.event_files import read_events
from vaswani_plugin.metrics.segments import read_lines
from vaswani_plugin.text.training_log import LOG_OF_RECIPE, Curve, read_curves, read_records


@dataclass
class Series:
    """A series of a run: positions `x` on the axis, `updates` and `values`, of equal length."""

    x: list[float]
    updates: list[int]
    values: list[float]

    def summary(self, best_of: Any) -> dict[str, Any]:
        """First, best and last value and their updates; None where there is no best."""
        finite = [
            (value, update)
            for value, update in zip(self.values, self.updates, strict=True)
            if math.isfinite(value)
        ]
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
    """A training: its name in the legend, its file, and its series by name."""

    label: str
    log: str
    series: dict[str, Series]


def read_run(path: Path, label: str | None, names: list[str], axis: str) -> Run:
    """Read a run from a log, a recipe's work folder or a TensorBoard folder.

    Args:
        path: of the log.
        label: in the legend; None: from the path.
        names: keys of `curve_series.SERIES`; the series of validation are added as "valid NAME",
            such as "valid loss".
        axis: a key of `curve_series.AXES`.

    Raises:
        ValueError: the log has no statistics, or not those that the axis needs.
        OSError: the log can't be read.
    """
    log = path / LOG_OF_RECIPE if (path / LOG_OF_RECIPE).is_file() else path
    records = read_events(log) if log.is_dir() else read_records(read_lines(log))
    curves = read_curves(records, str(log))
    # Log intervals are finer than epochs, but a short run logs epochs alone.
    training = curves.get("train_inner") or curves.get("train") or []
    _count_tokens(training)
    anchors = sorted(training + curves.get("train", []), key=lambda point: point["num_updates"])
    series = {}
    for kind, curve in {"": training, **curves}.items():
        if kind in ("train_inner", "train"):
            continue
        for name in names:
            # Only loss and perplexity of validation are curves, not its speed or learning rate.
            points = [p for p in curve if name in p] if not kind or name in ("loss", "ppl") else []
            if points:
                updates = [int(point["num_updates"]) for point in points]
                x = _positions(updates, anchors, axis, str(log))
                values = [point[name] for point in points]
                series[f"{kind} {name}".strip()] = Series(x, updates, values)
    return Run(label or _label(path), str(log), series)


def _label(path: Path) -> str:
    """The label of a log from its path: NAME for work/NAME/logs/train.log."""
    parts = [part for part in path.resolve().parts if part not in ("logs", "train.log")]
    return parts[-1].removesuffix(".log")


def _count_tokens(training: Curve) -> None:
    """Add `tokens`, the number of tokens so far, to each point if the log has batch sizes."""
    before, total = 0.0, 0.0
    for point in training:
        if "wpb" not in point:
            return
        total += point["wpb"] * (point["num_updates"] - before)
        before = point["num_updates"]
        point["tokens"] = total


def _positions(updates: list[int], anchors: Curve, axis: str, name: str) -> list[float]:
    """Positions of updates on an axis, interpolated between the updates that training logged.

    Raises:
        ValueError: the log does not have the axis's statistic.
    """
    if axis == "updates":
        return [float(update) for update in updates]
    field, unit = {"time": ("seconds", 3600.0), "tokens": ("tokens", 1.0)}[axis]
    known = [point for point in anchors if field in point]
    if not known:
        raise ValueError(f"{name}: --x {axis}: this log doesn't tell it; take --x updates")
    at = [0.0, *(point["num_updates"] for point in known)]
    position = [0.0, *(point[field] / unit for point in known)]
    return np.interp(updates, at, position).tolist()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
