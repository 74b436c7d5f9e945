"""Reads a training and its curves from the log of fairseq-train, in any `--log-format` but none.

The text of a line says which statistics it has. The logger's name before it is not read: Hydra,
`--log-file` and Python write it in other ways.
"""

import json
import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from vaswani_plugin.errors import UserError

LOG_OF_RECIPE = "logs/train.log"  # the log of a training, in a recipe's work folder

Curve = list[dict[str, float]]

_JSON = re.compile(r'(?:^|[\s:])(\{".*\})\s*$')
_PLAIN = re.compile(
    r"epoch \d+(?::\s+\d+ / \d+ (?P<inner>.*)| \| (?:valid on '(?P<subset>.+?)' subset \| )?(.*))"
)
# The number of updates of the loaded checkpoint; without a checkpoint there is none.
_START = re.compile(r"Loaded checkpoint .* \(epoch \d+ @ (\d+) updates\)|No existing checkpoint")
_ARCH = re.compile(r"'model': (?:\{'_name': |Namespace\(.*?\barch=)'(\w+)'")
_PARAMETERS = re.compile(r"num\. (?:shared )?model params: ([\d,]+)")


def statistics(line: str) -> tuple[str, dict[str, str]] | None:
    """Reads a log line: its kind (see `read_curves`), its fields by name; None for other lines."""
    if match := _JSON.search(line):
        try:
            fields = {key: str(value) for key, value in json.loads(match[1]).items()}
        except ValueError:
            return None  # truncated, or a line of another program
        kind = next((key[:-12] for key in fields if key.endswith("_num_updates")), "train_inner")
        fields = {key.removeprefix(f"{kind}_"): value for key, value in fields.items()}
    elif match := _PLAIN.search(line):
        kind = "train_inner" if match["inner"] else match["subset"] or "train"
        fields = dict(re.findall(r"(\w+)[ =]([^\s,]+)", match["inner"] or match[3]))
    else:
        return None
    return (kind, fields) if fields.get("num_updates", "").isdecimal() else None


def read_curves(lines: Iterable[str], name: str) -> dict[str, Curve]:
    """Joins the starts of a run; if updates were repeated, the later records replace the earlier.

    `name` is the log's for errors. Returns by kind, "train_inner" (an interval within an epoch),
    "train" (an epoch) or the name of a validation set, the points in the order of their
    `num_updates`. `seconds` is the time of all starts since the one without a checkpoint, if the
    log has it; `interval` is the number of updates that the point is about.
    """
    curves: dict[str, dict[int, dict[str, float]]] = {}
    before = wall = 0.0  # seconds: of earlier starts, of this one
    begun = 0  # updates at this start
    for line in lines:
        start = _START.search(line)
        record = ("", {"num_updates": start[1] or "0"}) if start else statistics(line)
        if record is None:
            continue
        kind, fields = record
        point: dict[str, float] = {}
        for key, text in fields.items():
            with suppress(ValueError):  # a word, or None
                point[key] = float(text)
        update, points = int(fields["num_updates"]), curves.setdefault(kind, {})
        if start or point.get("wall", wall) < wall:  # fairseq's clock restarts
            before, wall = 0.0 if start and not update else before + wall, 0.0  # a new training
        if start or (points and update < max(points)):
            begun = update if start else begun
            for curve in curves.values():
                for late in [other for other in curve if other > update]:
                    del curve[late]
        if start:
            continue
        points.pop(update, None)
        wall = point.get("wall", wall)
        if "wall" in point:
            point["seconds"] = before + wall
        earlier = [other for other in list(points)[-1:] if other >= begun]
        point["interval"] = update - (earlier or [begun])[0]
        points[update] = point
    if not any(curves.values()):
        raise UserError(f"{name}: no training statistics in it (--log-format none prints none)")
    return {kind: list(curve.values()) for kind, curve in curves.items() if curve}


@dataclass
class TrainingRun:
    """A run of fairseq-train, resumed or not."""

    arch: str | None  # if the log has it
    parameters: int
    updates: int
    seconds: float  # of all starts
    tokens_per_update: float  # of the target, without padding
    tokens_per_second: float  # the same, in the time of training alone
    train: Curve
    valid: Curve


def read_training(lines: Iterable[str], name: str) -> TrainingRun:
    """Reads a log; the arguments are those of `read_curves`."""
    lines = list(lines)
    curves = read_curves(lines, name)
    # Intervals also cover an unfinished last epoch. A short run logs epochs only.
    points = curves.get("train_inner") or curves.get("train", [])
    parameters = [match[1] for line in lines if (match := _PARAMETERS.search(line))]
    archs = [match[1] for line in lines if (match := _ARCH.search(line))]
    tokens = seconds = updates = 0.0
    for point in points:
        here = point["interval"] * point.get("wpb", 0.0)
        if here and 0 < point.get("wps", 0.0) < math.inf:
            tokens, seconds = tokens + here, seconds + here / point["wps"]
            updates += point["interval"]
    if not (parameters and seconds):
        raise UserError(f"{name}: no size of a model or no speed in it: did the training begin?")
    every = [*points, *curves.get("train", [])]
    return TrainingRun(
        arch=archs[-1] if archs else None,
        parameters=int(parameters[-1].replace(",", "")),
        updates=int(max(point["num_updates"] for point in every)),
        seconds=max(point.get("seconds", 0.0) for point in every),
        tokens_per_update=tokens / updates,
        tokens_per_second=tokens / seconds,
        train=points,
        valid=curves.get("valid", []),
    )
