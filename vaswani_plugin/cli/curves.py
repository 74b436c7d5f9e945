"""`vaswani curves`: the statistics that fairseq-train logged, as curves, a table or JSON."""

import argparse
import json
from pathlib import Path

from vaswani_plugin.cli._flags import add_format
from vaswani_plugin.figures import curves
from vaswani_plugin.figures.curves import AXES, SERIES
from vaswani_plugin.figures.figures import check_plot_path

HELP = "training curves from fairseq's logs: loss, perplexity, learning rate, speed"
EXAMPLE = "vaswani curves work/multi30k other/train.log --label ours theirs --output curves.png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    log = "a log of fairseq-train (--log-format json), or a recipe's work folder"
    add("log", type=Path, nargs="+", metavar="LOG", help=log)
    label = "a name for each log, in the same order (default: the paths)"
    add("--label", nargs="+", default=[], metavar="NAME", help=label)
    series = (
        f"what to show: {', '.join(SERIES)}; loss and ppl include the validation's (default: all "
    )
    series += "that the logs hold)"
    add("--series", nargs="+", choices=SERIES, default=[], metavar="NAME", help=series)
    add("--x", choices=AXES, default="updates", help="horizontal axis (default: %(default)s)")
    output = "draw the curves, one panel for each series"
    add("--output", type=Path, metavar="FILE", help=output)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Read the logs; draw curves and print the statistics.

    Raises:
        ValueError: a file without statistics, a series that no log has, labels that don't fit.
        OSError: a log can't be read, the picture can't be written.
    """
    if args.label and len(args.label) != len(args.log):
        raise ValueError(f"--label: {len(args.label)} names for {len(args.log)} logs")
    if args.output:
        check_plot_path(args.output)
    labels = args.label or [None] * len(args.log)
    names = list(dict.fromkeys(args.series)) or list(SERIES)
    runs = [
        curves.read_run(log, label, names, args.x)
        for log, label in zip(args.log, labels, strict=True)
    ]
    present = {key.split()[-1] for each in runs for key in each["series"]}
    for name in args.series or names[:1]:
        if name not in present:
            raise ValueError(f"--series {name}: no log has it")
    names = [name for name in names if name in present]
    if args.output:
        curves.draw(runs, names, args.x, args.output)
    as_json = {"x": args.x, "runs": runs}
    print(json.dumps(as_json) if args.format == "json" else curves.as_text(runs))
    return 0
