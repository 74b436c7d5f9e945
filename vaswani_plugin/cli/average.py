"""`vaswani average`: one checkpoint whose weights are the mean of several (section 6.1)."""

import argparse
from pathlib import Path

from vaswani_plugin.cli._start import start_fairseq

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
        help="the N highest updates (checkpoint_3_12000.pt)",
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
    """Average and write; returns 0."""
    start_fairseq()
    from vaswani_plugin.cli import _averaging

    return _averaging.run(args)
