"""The result of gpu.py as Markdown, and a description of the machine."""

import importlib.metadata
import platform
from typing import Any

from training_runs import SIDES

from vaswani_plugin import processor

PRINTED_TFLOPS = {
    **{"H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312, "L40S": 362, "L4": 121},
    **{"A10": 125, "RTX 4090": 165, "RTX 3090": 71, "B200": 2250},
}
"""Makers' peak TFLOP/s of dense bf16 products with float32 sums, by a part of the GPU's name."""


def machine(device: str) -> dict[str, Any]:
    """Name, memory and software."""
    import torch

    found: dict[str, Any] = {"name": processor.description(), "python": platform.python_version()}
    if device == "gpu":
        properties = torch.cuda.get_device_properties(0)
        found |= {"name": properties.name, "gib": round(properties.total_memory / 2**30, 1)}
        found["cuda"] = torch.version.cuda
    packages = ("torch", "fairseq-fixed")
    return found | {name: importlib.metadata.version(name) for name in packages}


def printed_peak(found: dict[str, Any]) -> float:
    """Peak FLOP/s that the maker prints; 0 where the machine is not known."""
    name = found["name"]
    return next((1e12 * rate for part, rate in PRINTED_TFLOPS.items() if part in name), 0.0)


def as_markdown(report: dict[str, Any]) -> str:
    """The report as Markdown; `docs/how-to/gpu.md` contains it unchanged."""
    found, settings = report["machine"], report["settings"]
    memory = f", {found['gib']} GiB" if "gib" in found else ""
    software = ", ".join(f"{name} {found[name]}" for name in ("torch", "fairseq-fixed", "python"))
    lines = [f"# {found['name']}{memory}", "", f"{software}.", ""]
    parts = report["parts"]
    for name, writer in (("training", _training), ("decoding", _decoding), ("tests", _tests)):
        if name not in parts:
            continue
        lines += [f"## {name.capitalize()}", ""]
        if "failed" in parts[name]:
            lines += [f"**Failed**: {parts[name]['failed']}", ""]
        else:
            lines += [*writer(parts[name]["result"], settings), ""]
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "not known" if share is None else f"{share:.1f}%"


def _training(found: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    lines = [
        f"{settings['precision']}, {settings['max_tokens']:,} tokens a batch with padding, "
        f"{settings['vocabulary']:,} rows, {settings['updates']} updates x "
        f"{settings['repetitions']}; ours beside fairseq's stock model:",
        "",
        "| size | side | target tokens/s | peak MiB | MFU, printed peak | of the rate measured "
        "| device idle |",
        "|---|---|---|---|---|---|---|",
    ]
    for size, each in found["sizes"].items():
        for side in SIDES:
            row = each[side]
            idle = row.get("idle_share")
            lines.append(
                f"| {size} | {side} | {row['tokens_per_second']['median']:,.0f} "
                f"| {row['peak_mib']['median']:,.0f} | {_percent(row['mfu_percent'])} "
                f"| {_percent(each['percent_of_floor_reached'][side])} "
                f"| {'not measured' if idle is None else _percent(100 * idle)} |"
            )
        ratio = each["ours_over_stock"]
        lines.append(
            f"| {size} | ours / stock | {ratio['tokens_per_second']} | {ratio['peak_mib']} | | | |"
        )
    return lines


def _decoding(found: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    lines = [
        f"{settings['decode_size']}, float32, beam {found['beam']}, {found['sentences']:,} "
        "sentences of 28 words, untrained; seconds of the whole process, and of the search alone:",
        "",
        "| engine | process | search | stock / engine |",
        "|---|---|---|---|",
    ]
    for engine, row in found["batch"].items():
        numbers = row["search_seconds"], row["search_times_stock"]
        search, times = ("too short" if x is None else f"{x:.2f}" for x in numbers)
        lines.append(f"| {engine} | {row['wall_seconds']:.1f} | {search} | {times} |")
    lines += ["", "The search alone, ours:", ""]
    lines += ["| sentences a batch | sentences/s | device idle |", "|---|---|---|"]
    for batch, row in found["searches"].items():
        lines.append(f"| {batch} | {row['speed']:.1f} | {_percent(100 * row['idle_share'])} |")
    return lines


def _tests(found: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    return [found["said"], *(f"- {line}" for line in found["skipped"])]
