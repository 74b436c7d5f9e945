"""Speed of training and decoding without each kernel, over that with all; run by kernels.sh."""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measurement import ROOT, measure
from training import complete, figures, hardly_trained, options, spread, train, write_result

from vaswani_plugin.files.programs import run
from vaswani_plugin.kernels import NAMES

MODES = ["training", "decoding"]


def variants(left_out: list[str]) -> dict[str, str]:
    """VASWANI_KERNELS of each variant: all kernels, all but one (of these), none."""
    without = {f"without {name}": ",".join(n for n in NAMES if n != name) for name in left_out}
    return {"all": "on", **without, "plain": "off"}


def once(args: argparse.Namespace, size: str, mode: str, kernels: str) -> float:
    """Target tokens a second of one training, or sentences a second of one search."""
    if mode == "training":
        return figures(train(args, "ours", size, kernels), args.warm_up)["tokens_per_second"]
    output, script = args.work / "decoding.json", Path(__file__).with_name("decoding.py")
    command = [sys.executable, script, "--engine", "ours", "--model", hardly_trained(args, size)]
    command += ["--data-bin", args.data, "--work", args.work, "--single", 0]
    command += ["--threads", args.threads, "--output-length", args.output_length]
    measure(command, stdout=output, VASWANI_KERNELS=kernels)
    return json.loads(output.read_text(encoding="utf-8"))["batch"]


def compare(
    names: dict[str, str], repetitions: int, measure_once: Callable[[str], float]
) -> dict[str, Any]:
    """By variant the median speed, and its ratio to `all` in the same round; they take turns."""
    rounds = [{name: measure_once(names[name]) for name in names} for _ in range(repetitions)]
    over_all = {name: spread(each[name] / each["all"] for each in rounds) for name in names}
    speeds = {name: statistics.median(each[name] for each in rounds) for name in names}
    return {name: {"speed": speeds[name], "over_all": over_all[name]} for name in names}


def as_table(cases: dict[str, dict[str, Any]]) -> str:
    """A table in Markdown for each case."""
    lines = []
    for case, rows in cases.items():
        lines += [f"| {case} | speed | over all |", "|---|---|---|"]
        for name, row in rows.items():
            ratio = "{median:.3f} ({lowest:.3f} to {highest:.3f})".format(**row["over_all"])
            lines.append(f"| {name} | {row['speed']:,.1f} | {ratio} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = options(__doc__)
    add = parser.add_argument
    add("--sentences", type=int, default=400, help="training sentences to decode")
    add("--output-length", type=int, default=20, help="of each (default: 20)")
    add("--modes", nargs="+", choices=MODES, default=MODES)
    add("--kernels", nargs="+", choices=NAMES, default=NAMES, help="leave out these (default: all)")
    args = parser.parse_args(argv)
    names = variants(args.kernels)
    args = complete(args)
    if "decoding" in args.modes:
        from decoding import take_sentences

        take_sentences(argparse.Namespace(**vars(args), data_bin=args.data, subset="train"))
    os.environ["PYTHONPATH"] = str(ROOT)
    cases = {
        f"{size}, {mode}, {args.threads} threads": compare(
            names, args.repetitions, lambda kernels, s=size, m=mode: once(args, s, m, kernels)
        )
        for size in args.sizes
        for mode in args.modes
    }
    write_result(args, {"cases": cases}, as_table(cases))


if __name__ == "__main__":
    run(main)
