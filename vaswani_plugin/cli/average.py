"""`vaswani average`: one checkpoint whose weights are the mean of several (section 6.1)."""

import argparse
import json
from pathlib import Path

from vaswani_plugin.cli._flags import add_format
from vaswani_plugin.cli._types import positive_int

HELP = "average the weights of several checkpoints; fairseq loads the result"
EXAMPLE = "vaswani average --inputs checkpoints --last 5 --output checkpoints/average.pt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    inputs = "checkpoint files, or one folder with --last, --last-updates or --best"
    paths = {"nargs": "+", "type": Path, "required": True, "metavar": "PATH", "help": inputs}
    add("--inputs", **paths)
    which = parser.add_mutually_exclusive_group()
    for flag, what in (
        (
            "--last",
            "the checkpoints of the last N epochs (checkpoint12.pt; checkpoint_last.pt if it has "
            "more updates)",
        ),
        (
            "--last-updates",
            "the N checkpoints with the most updates (checkpoint_3_12000.pt; checkpoint_last.pt if "
            "it has more)",
        ),
        ("--best", "the N checkpoints with the best validation (checkpoint.best_loss_3.120.pt)"),
    ):
        which.add_argument(flag, type=positive_int, metavar="N", help=what)
    suffix = "--checkpoint-suffix of the training, if it had one"
    add("--checkpoint-suffix", default="", metavar="SUFFIX", help=suffix)
    output = "the averaged checkpoint to write"
    add("--output", type=Path, required=True, metavar="FILE", help=output)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Average and write; returns 0.

    Raises:
        ValueError: flags and files that don't fit together, a checkpoint that can't be used.
        OSError: a file can't be read or written.
    """
    from tqdm import tqdm

    from vaswani_plugin.export.average import average_checkpoints, select
    from vaswani_plugin.inference.checkpoints import save_checkpoint
    from vaswani_plugin.text.outputs import check_outputs

    paths = select(args.inputs, args.last, args.last_updates, args.best, args.checkpoint_suffix)
    check_outputs("--output", [args.output], paths)
    if args.output.is_dir():
        raise ValueError(f"--output {args.output} is a folder; name a file in it")
    # Made before the long work, so that an error comes at once.
    args.output.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(average_checkpoints(tqdm(paths, disable=None)), args.output)
    if args.format == "json":
        print(json.dumps({"output": str(args.output), "inputs": [str(path) for path in paths]}))
    else:
        names = ", ".join(path.name for path in paths)
        print(f"wrote {args.output}, the average of {len(paths)}: {names}")
    return 0
