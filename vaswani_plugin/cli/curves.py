"""`vaswani curves`: the statistics that fairseq-train logged, as curves, a table or JSON."""

import argparse
import json
from pathlib import Path

from vaswani_plugin.analysis.curve_series import AXES, SERIES
from vaswani_plugin.analysis.figures import check_plot_path

HELP = "training curves of fairseq's logs and TensorBoard folders: loss, perplexity, speed"
EXAMPLE = "vaswani curves work/multi30k other/train.log --label ours theirs --output curves.png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "log",
        type=Path,
        nargs="+",
        metavar="LOG",
        help="a log of fairseq-train (json, simple or tqdm format), a recipe's work folder, or a "
        "folder of --tensorboard-logdir",
    )
    parser.add_argument(
        "--label", nargs="+", default=[], metavar="NAME", help="of each log, in their order"
    )
    parser.add_argument(
        "--series",
        nargs="+",
        choices=SERIES,
        default=[],
        metavar="NAME",
        help=f"of {', '.join(SERIES)}; loss and ppl of the validation too (default: all there are)",
    )
    parser.add_argument("--x", choices=AXES, default="updates", help="(default: %(default)s)")
    parser.add_argument(
        "--output", type=Path, metavar="PNG", help="draw the curves, a panel a series"
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(args: argparse.Namespace) -> int:
    """Read the logs; draw curves and print the statistics.

    Raises:
        ValueError: a file without statistics, a series that no log has, labels that don't fit.
        OSError: a log can't be read, the picture can't be written.
    """
    from vaswani_plugin.analysis import curve_report as report
    from vaswani_plugin.analysis.curves import read_run

    if args.label and len(args.label) != len(args.log):
        raise ValueError(f"--label: {len(args.label)} names for {len(args.log)} logs")
    if args.output:
        check_plot_path(args.output)
    labels = args.label or [None] * len(args.log)
    names = list(dict.fromkeys(args.series)) or list(SERIES)
    runs = [
        read_run(log, label, names, args.x) for log, label in zip(args.log, labels, strict=True)
    ]
    present = {key.split()[-1] for each in runs for key in each.series}
    for name in args.series or names[:1]:
        if name not in present:
            raise ValueError(f"--series {name}: in none of the logs")
    names = [name for name in names if name in present]
    if args.output:
        report.draw(runs, names, args.x, args.output)
    as_json = args.format == "json"
    print(json.dumps(report.as_json(runs, args.x)) if as_json else report.as_text(runs))
    return 0
