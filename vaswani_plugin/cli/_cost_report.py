"""What `vaswani cost` prints: the paper's trainings, finished runs, and Table 2."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tabulate import tabulate

from vaswani_plugin.metrics.cost import DEVICES, PAPER_TRAININGS, Device, flops_by_time
from vaswani_plugin.metrics.multiply_adds import training_flops
from vaswani_plugin.metrics.published import TABLE_2
from vaswani_plugin.metrics.segments import read_lines
from vaswani_plugin.metrics.sizes import sizes_of
from vaswani_plugin.text.corpus_io import read_json
from vaswani_plugin.text.training_log import TrainingRun, read_training

LOG_OF_RECIPE = "logs/train.log"
_CONSTANTS = {"None": None, "True": True, "False": False}


def paper_trainings() -> list[dict[str, Any]]:
    """The paper's two figures from their inputs."""
    return [
        {
            "model": training.model,
            "hours": training.hours,
            "devices": training.devices,
            "device": training.device.name,
            "teraflops": training.device.teraflops,
            "flops": training.flops,
            "printed_flops": training.printed_flops,
        }
        for training in PAPER_TRAININGS
    ]


def table_2() -> list[dict[str, Any]]:
    """The published rows."""
    return [vars(row) for row in TABLE_2]


def run_cost(
    path: Path, device: str | None, teraflops: float | None, devices: int | None
) -> dict[str, Any]:
    """One element of the key "runs".

    Args:
        path: a recipe's work folder, its result.json, or a log of fairseq-train.
        device: name of the device; None: the one that the log names.
        teraflops: rate of a device that has no name here.
        devices: how many; None: as many as the log names.

    Raises:
        ValueError: no log of a training; a recipe's result without its log.
        OSError: it can't be read.
    """
    log, scores, name = _find_log(path)
    run = read_training(read_lines(log), str(log))
    counted = _counted_flops(run)
    known = DEVICES[device] if device else None if teraflops else _named_device(run)
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
        "kind": known.kind if known else (rate and "given"),
        "flops_counted": counted,
        "flops_by_time": flops_by_time(run.seconds, count, rate) if rate else None,
        "bleu": scores,
    }
    return result


def _find_log(path: Path) -> tuple[Path, dict[str, Any] | None, str]:
    """(log, the recipe's BLEU if there is one, a name for the run)."""
    if path.is_dir():
        path = path / "result.json"
    if path.suffix != ".json":
        return path, None, str(path)
    try:
        result = read_json(path, "give the result of a recipe")
        recipe, scores = str(result["recipe"]), result.get("bleu")
        _bleu(_as_papers_print(scores or {}))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: no result.json of a recipe: {error!r}") from error
    log = path.parent / LOG_OF_RECIPE
    if not log.is_file():
        raise ValueError(f"{path}: no {LOG_OF_RECIPE} beside it; give a log of fairseq-train")
    return log, scores, recipe


def _named_device(run: TrainingRun) -> Device | None:
    words = re.split(r"[\s-]+", run.device_name or "")
    return next((device for name, device in DEVICES.items() if name in words), None)


def _counted_flops(run: TrainingRun) -> float | None:
    """By counting; None for a model that isn't ours.

    The log holds target tokens and sentences only, so a source is taken to be as long as its
    target, and padding is left out.
    """
    if run.target_vocabulary is None:
        return None
    settings = {name: _value(text) for name, text in run.model.items()}
    length = max(1, round(run.tokens / run.sentences))
    try:
        sizes = sizes_of(SimpleNamespace(**settings), run.target_vocabulary)
        # A batch of one, times how many there were: lengths are whole, the mean of a batch is not.
        per_token = sizes and training_flops(sizes, 1, length, length) / length
    except (AttributeError, TypeError, ArithmeticError):  # it shares some names with ours
        return None
    return per_token and per_token * run.tokens * run.updates


def _value(text: str) -> int | bool | str | None:
    """A setting as a log prints it."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    return int(text) if text.isdecimal() else text


def as_text(result: dict[str, Any]) -> str:
    """Everything for people."""
    parts = [_paper_text(result["paper"])]
    if "by_time" in result:
        parts.append(_time_text(result["by_time"]))
    if "by_counting" in result:
        parts.append(_counting_text(result["by_counting"]))
    parts += [_run_text(run) for run in result["runs"]]
    parts.append(_table_text(result["table_2"], result["runs"]))
    parts.append(_devices_text(result["devices"]))
    return "\n\n".join(parts)


def _product(row: dict[str, Any]) -> str:
    devices = " ".join(filter(None, (str(row["devices"]), row["device"])))
    return f"{row['hours']:.4g} h x {devices} x {row['teraflops']:g} TFLOP/s"


def _paper_text(rows: list[dict[str, Any]]) -> str:
    lines = ["The paper's figures from their inputs:"]
    for row in rows:
        printed = f"printed: {_flops(row['printed_flops'])}"
        lines.append(f"  {row['model']}: {_product(row)} = {row['flops']:.2e} ({printed})")
    return "\n".join(lines)


def _time_text(row: dict[str, Any]) -> str:
    return f"By time: {_product(row)} = {_limit(row)}{row['flops']:.2e} FLOPs"


def _limit(row: dict[str, Any]) -> str:
    return "at most " if row["kind"] == "peak" else ""


def _counting_text(row: dict[str, Any]) -> str:
    table = [[part, f"{count:,}"] for part, count in row["forward_multiply_adds"].items()]
    table.append(["all of it, forward", f"{sum(row['forward_multiply_adds'].values()):,}"])
    return (
        f"By counting: {row['arch']}, {row['sentences']} sentences of {row['source_length']} "
        f"source and {row['target_length']} target tokens, vocabulary {row['vocabulary']:,}\n"
        + tabulate(table, headers=["multiply-adds", ""], colalign=("left", "right"))
        + f"\nx 2 FLOPs x 3 (forward; backward twice) = {row['flops_per_update']:.3e} FLOPs an "
        f"update; {row['updates']:,} updates = {row['flops']:.3e} FLOPs"
    )


def _run_text(run: dict[str, Any]) -> str:
    pair = f"{run['pair']}, " if run["pair"] else ""
    lines = [
        f"Run {run['run']}: {run['arch']}, {pair}{run['parameters']:,} parameters, "
        f"{run['updates']:,} updates, {run['hours']:.3g} h"
    ]
    if run["flops_counted"] is None:
        lines.append("  by counting: not known for this kind of model")
    else:
        lines.append(
            f"  by counting: {run['flops_counted']:.2e} FLOPs (without padding, a source as long "
            "as its target)"
        )
    if run["flops_by_time"] is None:
        lines.append("  by time: give --device or --teraflops; the log names no device known here")
        return "\n".join(lines)
    lines.append(f"  by time: {_product(run)} = {_limit(run)}{run['flops_by_time']:.2e} FLOPs")
    if run["flops_counted"] is not None:
        share = run["flops_counted"] / run["flops_by_time"]
        lines.append(f"  of which counting finds {100 * share:.1f}%")
    return "\n".join(lines)


def _table_text(rows: list[dict[str, Any]], runs: list[dict[str, Any]]) -> str:
    table = [
        [
            row["model"],
            *(_bleu(row[f"bleu_{pair}"]) for pair in ("en_de", "en_fr")),
            *(_flops(row[f"flops_{pair}"]) for pair in ("en_de", "en_fr")),
        ]
        for row in rows
    ]
    for run in runs:
        bleu, flops = _bleu(_as_papers_print(run["bleu"] or {})), _flops(_cost(run))
        label = f"ours: {run['run']}, {run['pair']}, {run['arch']} *"
        columns = {"en-de": [bleu, "", flops, ""], "en-fr": ["", bleu, "", flops]}
        table.append([label, *columns.get(run["pair"], ["", "", flops, ""])])
    headers = ["Table 2", "BLEU EN-DE", "EN-FR", "FLOPs EN-DE", "EN-FR"]
    lines = [tabulate(table, headers=headers, disable_numparse=True)]
    if runs:
        lines.append("* BLEU on the test set of that run: comparable only where it is newstest2014")
    return "\n".join(lines + [f"{row['model']}: {row['remark']}" for row in rows if row["remark"]])


def _cost(run: dict[str, Any]) -> float | None:
    return run["flops_counted"] or run["flops_by_time"]


def _as_papers_print(scores: dict[str, Any]) -> float | None:
    """Of a run's scores the one that papers print."""
    kinds = ("compound_split", "tokenized", "sacrebleu")
    return next((scores[kind] for kind in kinds if scores.get(kind) is not None), None)


def _bleu(score: float | None) -> str:
    return "" if score is None else f"{score:.2f}".rstrip("0").rstrip(".")


def _flops(value: float | None) -> str:
    if value is None:
        return ""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}e{int(exponent)}"


def _devices_text(devices: list[dict[str, Any]]) -> str:
    headers = {"name": "device", "teraflops": "TFLOP/s", "kind": "", "source": "source"}
    return tabulate(
        [{headers[k]: device[k] for k in headers} for device in devices], headers="keys"
    )
