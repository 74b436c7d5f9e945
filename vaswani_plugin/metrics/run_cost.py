"""The training cost of a finished run from its log: by counting, and by the paper's method."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from vaswani_plugin.metrics.cost import DEVICES, Device, flops_by_time
from vaswani_plugin.metrics.multiply_adds import training_flops
from vaswani_plugin.metrics.segments import read_lines
from vaswani_plugin.metrics.sizes import sizes_of
from vaswani_plugin.text.corpus_io import read_json
from vaswani_plugin.text.training_log import LOG_OF_RECIPE, TrainingRun, read_training

_CONSTANTS = {"None": None, "True": True, "False": False}


def printed_bleu(scores: Mapping[str, Any]) -> float | None:
    """The BLEU score of a run that papers print; None if the run has none."""
    kinds = ("compound_split", "tokenized", "sacrebleu")
    return next((scores[kind] for kind in kinds if scores.get(kind) is not None), None)


def run_cost(
    path: Path, device: str | None, teraflops: float | None, devices: int | None
) -> dict[str, Any]:
    """The training cost of a run: one element of the key "runs".

    Args:
        path: a recipe's work folder, its result.json, or a log of fairseq-train.
        device: name of the device; None: the one that the log names.
        teraflops: rate of a device that has no name here.
        devices: number of devices; None: as many as the log names.

    Raises:
        ValueError: no log of a training; a recipe's result without its log; a number that is not
            positive.
        OSError: a file can't be read.
    """
    log, scores, name = _find_log(path)
    run = read_training(read_lines(log), str(log))
    counted = _counted_flops(run)
    known = DEVICES[device] if device else _named_device(run) if teraflops is None else None
    rate = known.teraflops if known else teraflops
    count = devices if devices is not None else run.devices
    result = {
        "run": name,
        "arch": run.arch,
        "pair": run.pair,
        "parameters": run.parameters,
        "updates": run.updates,
        "hours": run.seconds / 3600,
        "devices": count,
        "device": known.name if known else None,
        "teraflops": rate,
        "kind": known.kind if known else None if rate is None else "given",
        "flops_counted": counted,
        "flops_by_time": None if rate is None else flops_by_time(run.seconds, count, rate),
        "bleu": scores,
    }
    return result


def _find_log(path: Path) -> tuple[Path, dict[str, Any] | None, str]:
    """The log, the recipe's BLEU scores (None if there are none), and a name for the run."""
    if path.is_dir():
        path = path / "result.json"
    if path.suffix != ".json":
        return path, None, str(path)
    try:
        result = read_json(path, "give the result of a recipe")
        recipe, scores = str(result["recipe"]), result.get("bleu")
        _check_number(printed_bleu(scores or {}))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: no result.json of a recipe: {error!r}") from error
    log = path.parent / LOG_OF_RECIPE
    if not log.is_file():
        raise ValueError(f"{path}: no {LOG_OF_RECIPE} beside it; give a log of fairseq-train")
    return log, scores, recipe


def _check_number(score: Any) -> None:
    if not isinstance(score, (int, float, type(None))):
        raise TypeError(f"BLEU {score!r}")


def _named_device(run: TrainingRun) -> Device | None:
    words = re.split(r"[\s-]+", run.device_name or "")
    return next((device for name, device in DEVICES.items() if name in words), None)


def _counted_flops(run: TrainingRun) -> float | None:
    """FLOPs by counting; None for a model that isn't ours.

    The log has only target tokens and sentences, so each source is assumed to be as long as its
    target, and padding is not counted.
    """
    if run.target_vocabulary is None:
        return None
    settings = {name: _value(text) for name, text in run.model.items()}
    length = max(1, round(run.tokens / run.sentences))
    try:
        sizes = sizes_of(SimpleNamespace(**settings), run.target_vocabulary)
        # Count one sentence of (rounded) mean length, then scale by the number of tokens.
        if sizes is None:
            return None
        per_token = training_flops(sizes, 1, length, length) / length
    except (AttributeError, TypeError, ArithmeticError):  # another model with some of our options
        return None
    return per_token * run.tokens * run.updates


def _value(text: str) -> int | bool | str | None:
    """A setting as a log prints it."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    return int(text) if text.isdecimal() else text
