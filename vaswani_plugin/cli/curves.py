"""`vaswani curves`: what fairseq-train logged, as curves, a table or JSON; compares runs."""

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaswani_plugin.cli._figures import check_plot_path, new_figure, save_figure

if TYPE_CHECKING:
    from vaswani_plugin.cli._curves import Run

HELP = "training curves of fairseq's logs and TensorBoard folders: loss, perplexity, speed"
EXAMPLE = "vaswani curves work/multi30k other/train.log --label ours theirs --output curves.png"
SERIES = {
    "loss": ("loss", "loss (bits)", min),
    "ppl": ("ppl", "perplexity", min),
    "lr": ("lr", "learning rate", None),
    "wps": ("wps", "target tokens/s", max),
    "gnorm": ("gnorm", "gradient norm", None),
}
"""Name: (field of fairseq's statistics, what it is called on an axis, what is best)."""
AXES = {"updates": "updates", "time": "hours", "tokens": "target tokens"}


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
    """Read the logs; draw, and print what they tell.

    Raises:
        ValueError: a file without statistics, a series that no log has, labels that don't fit.
        OSError: a log can't be read, the picture can't be written.
    """
    from vaswani_plugin.cli._curves import read_run

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
        draw(runs, names, args.x, args.output)
    print(json.dumps(as_json(runs, args.x)) if args.format == "json" else as_text(runs))
    return 0


def _belongs(key: str, name: str) -> bool:
    """Whether "loss", "valid loss" is of the series "loss"."""
    return key.split()[-1] == name


def as_json(runs: list["Run"], axis: str) -> dict[str, Any]:
    """Everything, with null for what is no finite number."""
    return {
        "x": axis,
        "runs": [
            {
                "label": each.label,
                "log": each.log,
                "series": {
                    key: series.summary(SERIES[key.split()[-1]][2])
                    | {
                        "updates": series.updates,
                        "x": series.x,
                        "y": [v if math.isfinite(v) else None for v in series.values],
                    }
                    for key, series in each.series.items()
                },
            }
            for each in runs
        ],
    }


def as_text(runs: list["Run"]) -> str:
    """A table for people: of each run and series the first, the best and the last value."""
    from tabulate import tabulate

    rows, remarks = [], []
    for each in runs:
        for number, (key, series) in enumerate(each.series.items()):
            found = series.summary(SERIES[key.split()[-1]][2])
            rows.append(
                {
                    "run": "" if number else each.label,
                    "series": key,
                    "first": _shown(series.values[0]),
                    "best": _shown(found["best"]),
                    "at update": "" if found["best_update"] is None else found["best_update"],
                    "last": _shown(series.values[-1]),
                    "of update": found["last_update"],
                }
            )
            if found["not_finite"]:
                remarks.append(
                    f"{each.label}: {key}: {found['not_finite']} of {len(series.values)} values "
                    "are no finite numbers"
                )
    aligned = ("left", "left", *["right"] * 5)
    table = tabulate(rows, headers="keys", disable_numparse=True, colalign=aligned)
    return "\n".join([table, *remarks])


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def draw(runs: list["Run"], names: list[str], axis: str, path: Path) -> None:
    """A panel a series, a colour a run; validation with dots, over its training's thin line.

    Raises:
        OSError: the picture can't be written.
    """
    from matplotlib.ticker import EngFormatter

    columns = min(len(names), 3)
    rows = math.ceil(len(names) / columns)
    figure = new_figure(1 + 4 * columns, 3.4 * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for name, panel in zip(names, panels, strict=False):
        for number, each in enumerate(runs):
            for key, series in each.series.items():
                if not _belongs(key, name):
                    continue
                validation = key != name
                subset = f", {key.split()[0]}" if validation else ""
                style = {"marker": "o", "markersize": 3} if validation else {"linewidth": 1.2}
                paired = not validation and any(
                    _belongs(k, name) and k != name for k in each.series
                )
                panel.plot(
                    *(series.x, series.values),
                    color=f"C{number % 10}",
                    alpha=0.45 if paired else 1.0,
                    label=each.label + subset,
                    **style,
                )
        panel.set_xlabel(AXES[axis])
        panel.set_title(SERIES[name][1], fontsize=10)
        if name == "ppl":
            panel.set_yscale("log")
        if axis == "tokens":
            panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        panel.grid(alpha=0.3)
        if panel.lines and (len(runs) > 1 or len(panel.lines) > 1):
            panel.legend(fontsize=8)
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    save_figure(figure, path)
