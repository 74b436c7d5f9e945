"""`vaswani cost`: Table 2, training FLOPs by the paper's method, by counting, and of our runs."""

import argparse
import json
from pathlib import Path
from typing import Any

from vaswani_plugin.architectures import FAMILIES, PAPER_VOCABULARY
from vaswani_plugin.cli._start import start_fairseq
from vaswani_plugin.metrics.cost import DEVICES, HOUR, flops_by_time
from vaswani_plugin.metrics.multiply_adds import Sizes, forward_multiply_adds, training_flops
from vaswani_plugin.metrics.sizes import sizes_of

HELP = "Table 2: what training costs in FLOPs, by time, by counting, and for finished runs"
EXAMPLE = "vaswani cost --arch vaswani_base --run work/multi30k --device H100"
PAPER_UPDATES = 100_000
PAPER_UPDATES_OF_BIG = 300_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    time = parser.add_argument_group("by the paper's method: time x devices x TFLOP/s")
    time.add_argument("--hours", type=float, help="training time")
    time.add_argument("--devices", type=int, metavar="N", help="devices at once (default: 1)")
    rate = time.add_mutually_exclusive_group()
    rate.add_argument(
        "--device",
        choices=DEVICES,
        metavar="NAME",
        help=f"one of {', '.join(DEVICES)}; of a run: the device that its log names",
    )
    rate.add_argument("--teraflops", type=float, metavar="T", help="rate of any other device")
    count = parser.add_argument_group("by counting multiply-adds")
    count.add_argument("--arch", help="an architecture of `vaswani archs`")
    for flag, default, what in (
        ("--vocab", PAPER_VOCABULARY, "rows of the shared matrix"),
        ("--sentences", 1000, "sentences in a batch"),
        ("--source-length", 25, "tokens of a source sentence, padding included"),
        ("--target-length", 25, "tokens of a target sentence, padding included"),
    ):
        count.add_argument(
            flag, type=int, default=default, metavar="N", help=f"{what} (default: %(default)s)"
        )
    count.add_argument(
        "--updates",
        type=int,
        metavar="N",
        help="batches (default: the paper's 100,000, big 300,000)",
    )
    parser.add_argument(
        "--run",
        type=Path,
        nargs="+",
        default=[],
        metavar="PATH",
        help="finished runs: a recipe's work folder, its result.json, or a log of fairseq-train",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(args: argparse.Namespace) -> int:
    """Print the costs asked for, then Table 2.

    Raises:
        ValueError: flags that don't fit, numbers that make no cost, a file that is no log.
        OSError: a file can't be read.
    """
    if args.hours is None and not args.run and (args.device or args.teraflops or args.devices):
        raise ValueError("--devices, --device and --teraflops need --hours or --run")
    from vaswani_plugin.cli import _cost_report as report

    result: dict[str, Any] = {"paper": report.paper_trainings()}
    if args.hours is not None:
        result["by_time"] = by_time(args)
    if args.arch is not None:
        result["by_counting"] = by_counting(args)
    result["runs"] = [
        report.run_cost(path, args.device, args.teraflops, args.devices) for path in args.run
    ]
    result["table_2"] = report.table_2()
    result["devices"] = [vars(device) for device in DEVICES.values()]
    print(json.dumps(result) if args.format == "json" else report.as_text(result))
    return 0


def by_time(args: argparse.Namespace) -> dict[str, Any]:
    """The key "by_time": the inputs, and their product.

    Raises:
        ValueError: no rate, or a number that is not positive.
    """
    if args.teraflops is None and args.device is None:
        raise ValueError("--hours needs a rate: give --device or --teraflops")
    known = DEVICES[args.device] if args.device else None
    rate = known.teraflops if known else args.teraflops
    devices = 1 if args.devices is None else args.devices
    return {
        "hours": args.hours,
        "devices": devices,
        "device": args.device,
        "teraflops": rate,
        "kind": known.kind if known else "given",
        "flops": flops_by_time(args.hours * HOUR, devices, rate),
    }


def _sizes(arch: str, vocabulary: int) -> Sizes | None:
    """None for an architecture that is none of ours, or whose multiply-adds can't be counted."""
    start_fairseq()  # the values that a row leaves out stand in the configurations
    from fairseq.models import MODEL_DATACLASS_REGISTRY

    rows = ((family, row) for family in FAMILIES for row in family.rows if row.name == arch)
    for family, row in rows:
        return sizes_of(MODEL_DATACLASS_REGISTRY[family.model](**row.changes), vocabulary)
    return None


def by_counting(args: argparse.Namespace) -> dict[str, Any]:
    """The key "by_counting": the multiply-adds of a batch, and the FLOPs of a training.

    Raises:
        ValueError: an unknown architecture, or a number that makes no batch.
    """
    sizes = _sizes(args.arch, args.vocab)
    if sizes is None:
        names = [row.name for family in FAMILIES for row in family.rows]
        known = ", ".join(name for name in names if _sizes(name, args.vocab))
        raise ValueError(f"--arch {args.arch}: can't be counted; these can: {known}")
    updates = args.updates
    if updates is None:
        updates = PAPER_UPDATES_OF_BIG if args.arch.startswith("vaswani_big") else PAPER_UPDATES
    for flag, value in (("--updates", updates), ("--vocab", args.vocab)):
        if value < 1:
            raise ValueError(f"{flag} is {value}; it must be at least 1")
    batch = (args.sentences, args.source_length, args.target_length)
    parts = forward_multiply_adds(sizes, *batch)
    flops = training_flops(sizes, *batch)
    return {
        "arch": args.arch,
        "vocabulary": args.vocab,
        "sentences": args.sentences,
        "source_length": args.source_length,
        "target_length": args.target_length,
        "updates": updates,
        "forward_multiply_adds": parts,
        "flops_per_update": flops,
        "flops": flops * updates,
    }
