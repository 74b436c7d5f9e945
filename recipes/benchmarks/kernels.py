"""Measures the loss of training and decoding speed without each kernel; run by kernels.sh."""

import argparse
import json
import os
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from measurement import ROOT
from training import figures
from training_runs import (
    ARCHS,
    PLUGIN,
    Setting,
    add_measured,
    check,
    options,
    run_training,
    setting_of,
    write_result,
)

from vaswani_plugin import processor
from vaswani_plugin.errors import UserError, run

MODES = ("training", "decoding")


def variants(left_out: list[str] | None = None) -> dict[str, str]:
    """The value of VASWANI_KERNELS in each variant, by the variant's name.

    Args:
        left_out: kernels that are left out, one in each variant (default: every kernel).

    Raises:
        UserError: there is no such kernel.
    """
    from vaswani_plugin.kernels import NAMES

    for name in left_out or ():
        if name not in NAMES:
            raise UserError(f"--kernels {name}: no such kernel; they are {' '.join(NAMES)}")
    left_out = left_out or list(NAMES)
    without = {f"without {name}": ",".join(n for n in NAMES if n != name) for name in left_out}
    return {"all": "on", **without, "plain": "off"}


def train(work: Path, name: str, size: str, setting: Setting) -> dict[str, float]:
    """Target tokens a second and peak MiB of one training."""
    found = figures(run_training(work, name, "ours", size, setting), setting.warm_up)
    return {"speed": found["tokens_per_second"], "peak_mib": found["peak_mib"]}


def decode(name: str, size: str, setting: Setting, sentences: int) -> dict[str, float]:
    """Sentences a second of one search, in a process of its own.

    Raises:
        UserError: the process failed.
    """
    once = ROOT / "recipes" / "benchmarks" / "decode_once.py"
    done = subprocess.run(
        # The environment's: the shell script has activated it.
        ["python", once, setting.data, ARCHS[size], str(sentences)],
        capture_output=True,
        text=True,
        env=os.environ
        | {"OMP_NUM_THREADS": str(setting.threads), "VASWANI_KERNELS": setting.kernels},
    )
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise UserError(f"decoding {name} failed (exit code {done.returncode}): {last}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(
    names: dict[str, str], repetitions: int, once: Callable[[str, str, int], dict[str, float]]
) -> dict[str, Any]:
    """Run all variants in turn, `repetitions` times, and compare each with the first.

    Args:
        names: VASWANI_KERNELS by variant.
        repetitions: of each variant.
        once: function from (variant, its kernels, repetition) to the figures of one run.

    Returns:
        By variant: `speed` and `peak_mib` (medians), and `over_all`, the ratio of its speed to
        that of all kernels in the same round: median, lowest, highest.
    """
    rounds: list[dict[str, dict[str, float]]] = []
    for repetition in range(1, repetitions + 1):
        rounds.append({name: once(name, kernels, repetition) for name, kernels in names.items()})
    first = next(iter(names))
    table = {}
    for name in names:
        ratios = [each[name]["speed"] / each[first]["speed"] for each in rounds]
        table[name] = {
            key: round(statistics.median(each[name][key] for each in rounds), 1)
            for key in rounds[0][name]
        }
        table[name]["over_all"] = {
            "median": round(statistics.median(ratios), 3),
            "lowest": round(min(ratios), 3),
            "highest": round(max(ratios), 3),
        }
    return table


def measure_case(args: argparse.Namespace, base: Setting, size: str, mode: str) -> dict[str, Any]:
    """Measure all variants of one size, mode and number of threads."""

    def once(name: str, kernels: str, repetition: int) -> dict[str, float]:
        setting = replace(base, kernels=kernels)
        label = f"{size}-{mode}-{base.threads}-{name.replace(' ', '-')}-{repetition}"
        if mode == "decoding":
            return decode(label, size, setting, args.sentences)
        return train(args.work, label, size, setting)

    found = measure(variants(args.kernels), args.repetitions, once)
    return {"size": size, "mode": mode, "threads": base.threads, "variants": found}


def lines_of_code() -> dict[str, int]:
    """The number of lines of each file of kernels."""
    files = sorted((PLUGIN / "kernels").glob("*.py"))
    return {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in files}


def as_table(result: dict[str, Any]) -> str:
    """The result as a table."""
    lines = [f"{result['processor']}; lines: {result['lines']}"]
    for case in result["cases"]:
        lines.append(f"{case['size']}, {case['mode']}, {case['threads']} threads")
        for name, row in case["variants"].items():
            ratio = row["over_all"]
            peak = f"{row['peak_mib']:8,.0f} MiB" if "peak_mib" in row else ""
            spread = f"({ratio['lowest']:.3f} to {ratio['highest']:.3f})"
            lines.append(
                f"  {name:20}{row['speed']:10,.1f}/s{peak}  {ratio['median']:.3f} {spread} of all"
            )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = options("kernels.sh", __doc__)
    add_measured(parser, updates=15)
    parser.add_argument(
        "--sentences", type=int, default=400, help="training sentences to decode (default: 400)"
    )
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument(
        "--kernels", nargs="+", metavar="NAME", help="kernels to leave out in turn (default: all)"
    )
    parser.add_argument("--all-threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args(argv)
    check(args, ("max_tokens", "updates", "repetitions", "sentences", "all_threads"))
    variants(args.kernels)  # a mistaken name is reported now
    base = setting_of(args, args.max_tokens, args.updates)
    cases = [
        measure_case(args, replace(base, threads=threads), size, mode)
        for size in args.sizes
        for mode in args.modes
        for threads in args.all_threads
    ]
    result = {"benchmark": "kernels", "device": args.device, "processor": processor.description()}
    write_result(
        args.work / "kernels.json", result | {"lines": lines_of_code(), "cases": cases}, as_table
    )


if __name__ == "__main__":
    run(main)
