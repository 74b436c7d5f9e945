"""Training cost of the paper, of given inputs and of finished runs, and Table 2, as text."""

from typing import Any

from tabulate import tabulate

from vaswani_plugin.metrics.cost import DEVICES, HOUR, PAPER_TRAININGS, flops_by_time
from vaswani_plugin.metrics.multiply_adds import forward_multiply_adds, training_flops
from vaswani_plugin.metrics.published import TABLE_2
from vaswani_plugin.metrics.run_cost import printed_bleu
from vaswani_plugin.metrics.sizes import sizes_of_row
from vaswani_plugin.model.architectures import FAMILIES

PAPER_UPDATES = 100_000
PAPER_UPDATES_OF_BIG = 300_000


def paper_trainings() -> list[dict[str, Any]]:
    """The paper's two training costs, computed from their inputs."""
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
    """The rows of Table 2 as published."""
    return [vars(row) for row in TABLE_2]


def by_time(
    hours: float, devices: int | None, device: str | None, teraflops: float | None
) -> dict[str, Any]:
    """Training FLOPs by the paper's method, with the inputs.

    Args:
        hours: training time.
        devices: number of devices; None is 1.
        device: a key of `cost.DEVICES`; None: `teraflops` gives the rate.
        teraflops: rate of any other device.

    Raises:
        ValueError: no rate, or a number that is not positive.
    """
    if teraflops is None and device is None:
        raise ValueError("--hours needs a rate: give --device or --teraflops")
    known = DEVICES[device] if device else None
    rate: Any = known.teraflops if known else teraflops
    devices = 1 if devices is None else devices
    return {
        "hours": hours,
        "devices": devices,
        "device": device,
        "teraflops": rate,
        "kind": known.kind if known else "given",
        "flops": flops_by_time(hours * HOUR, devices, rate),
    }


def by_counting(
    arch: str, vocabulary: int, batch: tuple[int, int, int], updates: int | None
) -> dict[str, Any]:
    """The multiply-adds of a batch, and the FLOPs of a training.

    Args:
        arch: name of a row of `architectures`.
        vocabulary: rows of the projection.
        batch: sentences, source length and target length, padding included.
        updates: number of updates; None: as in the paper.

    Raises:
        ValueError: an architecture that can't be counted, or a number below 1.
    """
    rows = {row.name: (family, row) for family in FAMILIES for row in family.rows}
    sizes = sizes_of_row(*rows[arch], vocabulary) if arch in rows else None
    if sizes is None:
        known = ", ".join(name for name, row in rows.items() if sizes_of_row(*row, vocabulary))
        raise ValueError(f"--arch {arch}: can't be counted; these can: {known}")
    if updates is None:
        updates = PAPER_UPDATES_OF_BIG if arch.startswith("vaswani_big") else PAPER_UPDATES
    for flag, value in (("--updates", updates), ("--vocab", vocabulary)):
        if value < 1:
            raise ValueError(f"{flag} is {value}; it must be at least 1")
    parts = forward_multiply_adds(sizes, *batch)
    flops = training_flops(sizes, *batch)
    return {
        "arch": arch,
        "vocabulary": vocabulary,
        **dict(zip(("sentences", "source_length", "target_length"), batch, strict=True)),
        "updates": updates,
        "forward_multiply_adds": parts,
        "flops_per_update": flops,
        "flops": flops * updates,
    }


def as_text(result: dict[str, Any]) -> str:
    """The whole report as text."""
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
        bleu, flops = _bleu(printed_bleu(run["bleu"] or {})), _flops(_cost(run))
        label = f"ours: {run['run']}, {run['pair']}, {run['arch']} *"
        columns = {"en-de": [bleu, "", flops, ""], "en-fr": ["", bleu, "", flops]}
        if run["pair"] in columns:
            table.append([label, *columns[run["pair"]]])
    headers = ["Table 2", "BLEU EN-DE", "EN-FR", "FLOPs EN-DE", "EN-FR"]
    lines = [tabulate(table, headers=headers, disable_numparse=True)]
    if runs:
        lines.append("* BLEU on the test set of that run: comparable only where it is newstest2014")
    return "\n".join(lines + [f"{row['model']}: {row['remark']}" for row in rows if row["remark"]])


def _cost(run: dict[str, Any]) -> float | None:
    return run["flops_counted"] or run["flops_by_time"]


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
