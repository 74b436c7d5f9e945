"""Speed of several workers, and of one worker with as many threads; run by workers.sh."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from measurement import ROOT
from training_runs import Setting, add_measured, check, options, setting_of, write_result

from vaswani_plugin.errors import UserError, run

ONCE = ROOT / "recipes" / "benchmarks" / "train_once.py"


def run_together(
    log: Path, size: str, setting: Setting, workers: int, update_freq: int
) -> list[dict[str, Any]]:
    """The report of train_once.py for each worker of a training.

    Args:
        log: log file; the worker's rank is added to its name.
        size: of the model.
        setting: of the run, with the number of threads of each worker.
        workers: number of processes.
        update_freq: batches that each worker accumulates for an update.

    Raises:
        UserError: a worker failed; names its log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=log.parent) as folder:
        flags = [*setting.command("ours", size), "--update-freq", str(update_freq)]
        flags += ["--save-dir", f"{folder}/crash"]
        if workers > 1:
            flags += ["--distributed-world-size", str(workers), "--distributed-no-spawn"]
            flags += ["--distributed-init-method", f"file://{folder}/meeting"]
        processes = []
        for rank in range(workers):
            own = [*flags, "--distributed-rank", str(rank)]
            with open(f"{log}.{rank}", "wb") as stream:
                processes.append(
                    subprocess.Popen(
                        [sys.executable, ONCE, f"{folder}/{rank}", "--", *own],
                        stdin=subprocess.DEVNULL,
                        stdout=stream,
                        stderr=stream,
                        env=os.environ
                        | {"OMP_NUM_THREADS": str(setting.threads), "PYTHONPATH": str(ROOT)},
                    )
                )
        try:
            for rank, process in enumerate(processes):
                if process.wait():
                    raise UserError(f"worker {rank} failed ({process.returncode}), see {log}.*")
        finally:
            for process in processes:
                process.kill()
        reports = [json.loads(Path(folder, f"{rank}").read_text()) for rank in range(workers)]
    if any(len(each["updates"]) != setting.warm_up + setting.updates for each in reports):
        raise UserError(f"{log}.0: ended early; give more data")
    return reports


def tokens_per_second(reports: list[dict[str, Any]], warm_up: int) -> float:
    """Target tokens of all workers over the slowest's wall time, without the first updates."""
    counted = [report["updates"][warm_up:] for report in reports]
    tokens = sum(update["target"] for updates in counted for update in updates)
    return tokens / max(sum(u["wait"] + u["seconds"] for u in updates) for updates in counted)


def compare(args: argparse.Namespace, size: str, setting: Setting) -> dict[str, Any]:
    """Run both sides of one size in turn, and compare them."""
    one = replace(setting, threads=args.workers * setting.threads)
    sides = {"one": (one, 1, args.workers), "several": (setting, args.workers, 1)}
    speeds: dict[str, list[float]] = {side: [] for side in sides}
    for repetition in range(1, args.repetitions + 1):
        for side, (own, workers, update_freq) in sides.items():
            name = f"{size}-{side}-{repetition}"
            print(f"{name}: training ...", file=sys.stderr, flush=True)
            reports = run_together(args.work / "logs" / name, size, own, workers, update_freq)
            speeds[side].append(tokens_per_second(reports, args.warm_up))
    found: dict[str, Any] = {
        side: {
            "tokens_per_second": round(statistics.median(each), 1),
            "lowest": round(min(each), 1),
            "highest": round(max(each), 1),
        }
        for side, each in speeds.items()
    }
    ratios = [b / a for a, b in zip(speeds["one"], speeds["several"], strict=True)]
    found["ratio"] = round(statistics.median(ratios), 3)
    found["ratio_by_repetition"] = [round(ratio, 3) for ratio in ratios]
    return found


def as_table(result: dict[str, Any]) -> str:
    """The result as a table."""
    workers, threads = result["workers"], result["threads"]
    lines = [
        f"target tokens/s: 1 worker with {workers * threads} threads, {workers} with {threads}"
    ]
    for size, each in result["sizes"].items():
        one, several = (each[side]["tokens_per_second"] for side in ("one", "several"))
        spread = ", ".join(map(str, each["ratio_by_repetition"]))
        lines.append(f"  {size:6}{one:10,.0f}{several:10,.0f}  {each['ratio']} times ({spread})")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Command line."""
    parser = options("workers.sh", __doc__)
    parser.set_defaults(threads=1)  # of each of several workers
    parser.add_argument("--workers", type=int, default=2)
    add_measured(parser, updates=20)
    args = parser.parse_args(argv)
    check(args, ("workers", "max_tokens", "updates", "repetitions"))
    if args.device == "gpu":
        raise UserError("--device gpu: this compares workers with threads, on a CPU")
    setting = setting_of(args, args.max_tokens, args.updates)
    names = ("precision", "device", "workers", "threads", "max_tokens", "updates", "warm_up")
    result = {"benchmark": "workers", "data": args.data, "ours_flags": args.ours_flags}
    result |= {name: getattr(args, name) for name in (*names, "repetitions")}
    result["sizes"] = {size: compare(args, size, setting) for size in args.sizes}
    write_result(args.work / "workers.json", result, as_table)


if __name__ == "__main__":
    run(main)
