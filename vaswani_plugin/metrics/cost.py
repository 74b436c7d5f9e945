"""Training cost in FLOPs by the paper's method (section 6.1, Table 2): time x devices x rate."""

from dataclasses import dataclass
from typing import Any

from vaswani_plugin.errors import UserError


@dataclass(frozen=True)
class PublishedRow:
    """A row; None is an empty cell. BLEU is of tokens, for EN-DE with compounds split."""

    model: str
    bleu_en_de: float | None
    bleu_en_fr: float | None
    flops_en_de: float | None
    flops_en_fr: float | None
    remark: str = ""


TABLE_2 = (
    PublishedRow("ByteNet", 23.75, None, None, None),
    PublishedRow("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    PublishedRow("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    PublishedRow("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    PublishedRow("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    PublishedRow("Deep-Att + PosUnk, ensemble", None, 40.4, None, 8.0e20),
    PublishedRow("GNMT + RL, ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    PublishedRow("ConvS2S, ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    PublishedRow("Transformer (base)", 27.3, 38.1, 3.3e18, None),
    PublishedRow("Transformer (big)", 28.4, 41.8, 2.3e19, None, "For EN-FR 41.0 is in print, too."),
)
"""Vaswani et al. 2017, Table 2."""


@dataclass(frozen=True)
class Device:
    """A processor and its rate in TFLOP/s."""

    name: str
    teraflops: float
    # "sustained": the paper's estimate for training in single precision; or "peak": the maker's
    # figure for dense bfloat16, which no training reaches: FLOPs from it are an upper limit.
    kind: str
    source: str


_PAPER = "the paper, footnote 5"

DEVICES = {
    device.name: device
    for device in (
        Device("K80", 2.8, "sustained", _PAPER),
        Device("K40", 3.7, "sustained", _PAPER),
        Device("M40", 6.0, "sustained", _PAPER),
        Device("P100", 9.5, "sustained", _PAPER),
        Device("V100", 125.0, "peak", "NVIDIA V100 SXM2 data sheet (float16: it has no bfloat16)"),
        Device("A100", 312.0, "peak", "NVIDIA A100 data sheet"),
        Device("L4", 121.0, "peak", "NVIDIA L4 data sheet (242 with sparsity, halved)"),
        Device("L40S", 362.0, "peak", "NVIDIA L40S data sheet"),
        Device("H100", 989.0, "peak", "NVIDIA H100 SXM data sheet (1,979 with sparsity, halved)"),
        Device("H200", 989.0, "peak", "NVIDIA H200 SXM data sheet (1,979 with sparsity, halved)"),
        Device("B200", 2250.0, "peak", "NVIDIA B200 data sheet (4,500 with sparsity, halved)"),
        Device("MI300X", 1307.0, "peak", "AMD Instinct MI300X data sheet"),
    )
}


def paper_trainings() -> list[dict[str, Any]]:
    """The paper's two training costs on 8 P100, computed from their inputs, and as printed."""
    printed = ("Transformer (base)", 12.0, 3.3e18), ("Transformer (big)", 3.5 * 24, 2.3e19)
    return [
        {"model": model, **by_time(hours, 8, "P100", None), "printed_flops": flops}
        for model, hours, flops in printed
    ]


def by_time(
    hours: float, devices: int, device: str | None, teraflops: float | None
) -> dict[str, Any]:
    """A training's FLOPs: time x devices x rate, of a device or `teraflops` (1e12 a second)."""
    if teraflops is None and device is None:
        raise UserError("--hours needs a rate: give --device or --teraflops")
    rate: Any = DEVICES[device].teraflops if device else teraflops
    inputs = {"hours": hours, "devices": devices, "device": device, "teraflops": rate}
    kind = DEVICES[device].kind if device else "given"
    return inputs | {"kind": kind, "flops": hours * 3600.0 * devices * rate * 1e12}


def as_text(result: dict[str, Any]) -> str:
    """The whole report as text."""
    from tabulate import tabulate  # --help needs the devices alone

    lines = ["The paper's figures from their inputs:"]
    for row in result["paper"]:
        printed = f"printed: {_flops(row['printed_flops'])}"
        lines.append(f"  {row['model']}: {_product(row)} = {row['flops']:.2e} ({printed})")
    if row := result.get("by_time"):
        limit = "at most " if row["kind"] == "peak" else ""
        lines += ["", f"By time: {_product(row)} = {limit}{row['flops']:.2e} FLOPs"]
    if row := result.get("by_counting"):
        lines += [
            "",
            f"By counting: {row['arch']}, {row['sentences']} sentences of {row['source_length']} "
            f"source and {row['target_length']} target tokens, vocabulary {row['vocabulary']:,}: "
            f"{row['forward_flops']:.3e} FLOPs forward",
            f"x 3 (backward twice) = {row['flops_per_update']:.3e} FLOPs an update; "
            f"{row['updates']:,} updates = {row['flops']:.3e} FLOPs",
        ]
    table = [
        [row["model"], row["bleu_en_de"], row["bleu_en_fr"]]
        + [_flops(row["flops_en_de"]), _flops(row["flops_en_fr"])]
        for row in result["table_2"]
    ]
    head = ["Table 2", "BLEU EN-DE", "EN-FR", "FLOPs EN-DE", "EN-FR"]
    lines += ["", tabulate(table, head, disable_numparse=True)]
    lines += [f"{row['model']}: {row['remark']}" for row in result["table_2"] if row["remark"]]
    headers = {"name": "device", "teraflops": "TFLOP/s", "kind": "", "source": "source"}
    return "\n".join([*lines, "", tabulate(result["devices"], headers)])


def _product(row: dict[str, Any]) -> str:
    devices = " ".join(filter(None, (str(row["devices"]), row["device"])))
    return f"{row['hours']:.4g} h x {devices} x {row['teraflops']:g} TFLOP/s"


def _flops(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}".replace("e+", "e")
