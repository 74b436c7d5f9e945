"""Peak memory of training at several batch sizes, of our transformer and of fairseq's.

The memory is that of the process (CPU) or of its tensors (GPU). The settings are those of
training.sh. Run by memory.sh.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from training_runs import (  # noqa: E402
    SIDES,
    check,
    options,
    run_training,
    setting_of,
    write_result,
)

from vaswani_plugin.text.corpus_io import run  # noqa: E402


def peaks(args: argparse.Namespace, size: str, max_tokens: int) -> dict[str, Any]:
    """One row: peak memory of each side in MiB, and the ratio of ours to stock's.

    On a CPU the peak includes `libraries`: the memory of the process before it reads its data.
    """
    setting = setting_of(args, max_tokens, args.updates)
    row: dict[str, Any] = {"size": size, "max_tokens": max_tokens}
    for side in SIDES:
        name = f"{size}-{args.precision}-{args.device}-{max_tokens}-{side}"
        report = run_training(args.work, name, side, size, setting)
        row[f"{side}_mib"] = round(report["peak_bytes"] / 2**20)
        row[f"{side}_libraries_mib"] = round(report["libraries_bytes"] / 2**20)
    row["ours_over_stock"] = round(row["ours_mib"] / row["stock_mib"], 3)
    return row


def as_table(result: dict[str, Any]) -> str:
    """The result as a table."""
    lines = [f"{'size':6}{'tokens':>8}{'stock MiB':>11}{'ours MiB':>11}{'ratio':>8}  libraries MiB"]
    for row in result["rows"]:
        libraries = ", ".join(str(row[f"{side}_libraries_mib"]) for side in SIDES)
        lines.append(
            f"{row['size']:6}{row['max_tokens']:8,}{row['stock_mib']:11,}{row['ours_mib']:11,}"
            f"{row['ours_over_stock']:8}  {libraries}"
        )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = options("memory.sh", __doc__)
    parser.add_argument(
        "--max-tokens",
        type=int,
        nargs="+",
        default=[1024, 4096],
        help="batch sizes in tokens, padding included (default: 1024 4096)",
    )
    parser.add_argument("--updates", type=int, default=5)
    parser.set_defaults(warm_up=0)
    args = parser.parse_args(argv)
    check(args, ("max_tokens", "updates"))
    names = ("data", "ours_flags", "precision", "device", "threads", "updates")
    result = {"benchmark": "memory", **{name: getattr(args, name) for name in names}}
    result["rows"] = [peaks(args, size, most) for size in args.sizes for most in args.max_tokens]
    write_result(args.work / "memory.json", result, as_table)


if __name__ == "__main__":
    run(main)
