"""`vaswani average`: one checkpoint whose weights are the mean of several (section 6.1)."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

HELP = "average the weights of checkpoints into one that fairseq loads"
EXAMPLE = "vaswani average --inputs checkpoints --last 5 --output checkpoints/average.pt"


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} checkpoints can't be averaged: give 1 or more")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "--inputs",
        nargs="+",
        type=Path,
        required=True,
        metavar="DIR|FILE",
        help="a folder of checkpoints with one of the three flags below, or checkpoint files",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--last", type=_positive, metavar="N", help="the last N epochs (checkpoint12.pt)"
    )
    which.add_argument(
        "--last-updates",
        type=_positive,
        metavar="N",
        help="the N highest updates (checkpoint_3_12000.pt, and checkpoint_last.pt if later)",
    )
    which.add_argument(
        "--best",
        type=_positive,
        metavar="N",
        help="the N best by validation (checkpoint.best_loss_3.120.pt)",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(args: argparse.Namespace) -> int:
    """Average and write; returns 0.

    Raises:
        ValueError: flags and files that don't fit together, a checkpoint that can't be used.
        OSError: a file can't be read or written.
    """
    from tqdm import tqdm

    from vaswani_plugin.inference.checkpoints import save_checkpoint
    from vaswani_plugin.interchange.average import average_checkpoints
    from vaswani_plugin.interchange.checkpoint_choice import select

    paths = select(args.inputs, args.last, args.last_updates, args.best)
    if args.output.exists() and any(args.output.samefile(path) for path in paths):
        raise ValueError(f"--output {args.output} is one of the inputs and would be lost")
    # Made before the long work, so that an error comes at once.
    args.output.parent.mkdir(parents=True, exist_ok=True)
    progress: Callable = tqdm if sys.stderr.isatty() else iter
    save_checkpoint(average_checkpoints(progress(paths)), args.output)
    if args.format == "json":
        print(json.dumps({"output": str(args.output), "inputs": [str(path) for path in paths]}))
    else:
        names = ", ".join(path.name for path in paths)
        print(f"wrote {args.output}, the average of {len(paths)}: {names}")
    return 0
