"""`vaswani cost`: Table 2, training FLOPs by the paper's method, and by counting."""

import argparse
import json
from typing import Any

from vaswani_plugin.cli._flags import add_format
from vaswani_plugin.metrics import cost as report
from vaswani_plugin.metrics.cost import DEVICES
from vaswani_plugin.model.architectures import PAPER_VOCABULARY

HELP = "Table 2: training cost in FLOPs, from the time or from the model's size"
EXAMPLE = "vaswani cost --arch vaswani_base --hours 12 --devices 8 --device P100"


COUNTED = {
    "vocab": (PAPER_VOCABULARY, "rows of the shared embedding matrix"),
    "sentences": (1000, "sentences in a batch"),
    "source_length": (25, "tokens in a source sentence, padding included"),
    "target_length": (25, "tokens in a target sentence, padding included"),
}
"""By flag: its default and its help."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    time = parser.add_argument_group("by the paper's method: time x devices x TFLOP/s")
    time.add_argument("--hours", type=float, metavar="H", help="training time in hours")
    time.add_argument("--devices", type=int, metavar="N", help="number of devices (default: 1)")
    rate = time.add_mutually_exclusive_group()
    device = f"one of {', '.join(DEVICES)}"
    rate.add_argument("--device", choices=DEVICES, metavar="NAME", help=device)
    teraflops = "for another device: its sustained TFLOP/s"
    rate.add_argument("--teraflops", type=float, metavar="T", help=teraflops)
    count = parser.add_argument_group("by counting, with torch.utils.flop_counter")
    count.add_argument("--arch", metavar="NAME", help="an architecture of `vaswani archs`")
    for name, (default, what) in COUNTED.items():
        flag = f"--{name.replace('_', '-')}"
        count.add_argument(flag, type=int, metavar="N", help=f"{what} (default: {default})")
    updates = "training updates (default: the paper's, 100,000, or 300,000 for vaswani_big)"
    count.add_argument("--updates", type=int, metavar="N", help=updates)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the costs asked for, then Table 2.

    Raises:
        ValueError: flags that don't fit, numbers that make no cost.
    """
    by_time = args.device, args.teraflops, args.devices
    if args.hours is None and any(value is not None for value in by_time):
        raise ValueError("--devices, --device and --teraflops need --hours")
    counted = {name: getattr(args, name) for name in (*COUNTED, "updates")}
    if args.arch is None and any(value is not None for value in counted.values()):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in counted)
        raise ValueError(f"{flags} need --arch")
    result: dict[str, Any] = {"paper": report.paper_trainings()}
    rate = args.device, args.teraflops
    if args.hours is not None:
        result["by_time"] = report.by_time(args.hours, args.devices, *rate)
    if args.arch is not None:
        vocab, *batch = (
            default if counted[name] is None else counted[name]
            for name, (default, _) in COUNTED.items()
        )
        from vaswani_plugin.figures.flops import by_counting  # imports torch

        result["by_counting"] = by_counting(args.arch, vocab, tuple(batch), args.updates)
    result["table_2"] = [vars(row) for row in report.TABLE_2]
    result["devices"] = [vars(device) for device in DEVICES.values()]
    print(json.dumps(result) if args.format == "json" else report.as_text(result))
    return 0
