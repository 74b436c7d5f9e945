"""Trains and translates for a long time: checks that memory, open files and speed stay constant.

Run by soak.sh. It observes the processes from outside (Linux only). The first fifth of the time is
warm-up; of the rest, the last third is compared with the first.
"""

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measurement import ROOT, session_memory

from vaswani_plugin.errors import UserError, run
from vaswani_plugin.text.lines import read_lines
from vaswani_plugin.text.outputs import write_json
from vaswani_plugin.text.training_log import statistics as log_statistics

BIN = Path(sys.executable).parent
SAMPLES = 120
"""Number of samples of the processes."""

TICKS = os.sysconf("SC_CLK_TCK")
MOST_CHANGE = {"memory": 0.05, "descriptors": 0.0, "rate": -0.1}
"""Allowed relative changes from the first third to the last: memory, open files and speed."""


@dataclass
class Sample:
    """Seconds since the start, bytes of memory, open files, CPU seconds and work so far."""

    seconds: float
    memory: int
    descriptors: int
    cpu_seconds: float
    work: float


def open_files_and_time(session: int) -> tuple[int, float]:
    """Open files and CPU seconds of all processes of a session, ended ones included."""
    files, ticks = 0, 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                files += len(os.listdir(stat.parent / "fd"))
                ticks += sum(map(int, fields[11:15]))
        except OSError:
            continue  # the process has just ended
    return files, ticks / TICKS


def verdict(samples: list[Sample]) -> dict[str, Any]:
    """Medians of the first and last third after the warm-up, and whether the changes are allowed.

    Raises:
        UserError: too few samples, or no work between them.
    """
    start = samples[-1].seconds / 5 if samples else 0
    kept = [sample for sample in samples if sample.seconds >= start]
    third = len(kept) // 3
    if third < 2:
        raise UserError("--minutes: too short to tell anything; give more")
    parts = {"first": kept[: third + 1], "last": kept[-third - 1 :]}
    result: dict[str, Any] = {"flat": {}}
    for name in ("memory", "descriptors"):
        result[name] = {
            part: statistics.median(getattr(sample, name) for sample in chosen)
            for part, chosen in parts.items()
        }
        result[name]["highest"] = max(getattr(sample, name) for sample in samples)
    for name, clock in (("rate", "cpu_seconds"), ("rate_by_the_clock", "seconds")):
        result[name] = {part: _rate(chosen, clock) for part, chosen in parts.items()}
    for name, most in MOST_CHANGE.items():
        change = result[name]["last"] / result[name]["first"] - 1
        result[name]["change"] = round(change, 4)
        result["flat"][name] = change >= most if most < 0 else change <= most
    return result


def _rate(samples: list[Sample], clock: str) -> float:
    work = samples[-1].work - samples[0].work
    spent = getattr(samples[-1], clock) - getattr(samples[0], clock)
    if work <= 0 or spent <= 0:
        raise UserError("--minutes: nothing was finished in a third of the time; give more")
    return work / spent


def watch(
    process: subprocess.Popen, minutes: float, work: Callable[[], float], log: Path
) -> list[Sample]:
    """Sample a process, which leads a session of its own, until the time is over.

    Args:
        process: the process.
        minutes: time to sample.
        work: returns the work done so far.
        log: of the process, for the error message.

    Raises:
        UserError: the process ended before; names its log.
    """
    start, samples = time.perf_counter(), []
    while (now := time.perf_counter() - start) < 60 * minutes:
        if process.poll() is not None:
            last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
            raise UserError(f"it ended with exit code {process.returncode}, see {log}: {last}")
        files, cpu_seconds = open_files_and_time(process.pid)
        memory = session_memory(process.pid)
        samples.append(Sample(now, memory, files, cpu_seconds, work()))
        time.sleep(60 * minutes / SAMPLES)
    return samples


def _start(arguments: list, log: Path, threads: int, **streams) -> subprocess.Popen:
    with open(log, "wb") as messages:
        return subprocess.Popen(
            [str(argument) for argument in arguments],
            **{"stdin": subprocess.DEVNULL, "stdout": messages, **streams},
            stderr=messages,
            start_new_session=True,
            env=os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT)},
        )


def _end(process: subprocess.Popen) -> None:
    """End a session if it still runs."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)
    except ProcessLookupError:
        process.wait()
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def soak_training(args: argparse.Namespace) -> list[Sample]:
    """Train, validate and save, epoch after epoch; the work is updates."""
    log, done = args.work / "train.log", {"offset": 0, "updates": 0.0}

    def updates() -> float:
        with open(log, encoding="utf-8", errors="replace") as stream:
            stream.seek(done["offset"])
            # The last line may be incomplete; the next sample then reads it whole.
            lines = stream.read().rpartition("\n")[0]
        done["offset"] += len(lines.encode("utf-8"))
        for line in lines.split("\n"):
            if parsed := log_statistics(line):
                done["updates"] = float(parsed[1].get("num_updates", done["updates"]))
        return done["updates"]

    command = [BIN / "fairseq-train", args.data, "--user-dir", ROOT / "vaswani_plugin"]
    command += ["--task", "vaswani_translation", "--arch", args.arch, "--log-format", "json"]
    command += ["--max-tokens", args.max_tokens, "--log-interval", 1, "--no-epoch-checkpoints"]
    shutil.rmtree(args.work / "checkpoints", ignore_errors=True)  # it begins anew
    command += ["--save-dir", args.work / "checkpoints"]
    process = _start(command + ([] if args.gpu else ["--cpu"]), log, args.threads)
    try:
        return watch(process, args.minutes, updates, log)
    finally:
        _end(process)


def soak_translation(args: argparse.Namespace) -> list[Sample]:
    """Translate random lines of a file until the time is over; the work is translated lines.

    Raises:
        UserError: there are fewer translations than input lines.
    """
    lines, rng = [line for line in read_lines(args.lines) if line.strip()], random.Random(1)
    if not lines:
        raise UserError(f"--lines {args.lines}: no lines in it")
    counts, log = {"in": 0, "out": 0}, args.work / "translate.log"
    command = [BIN / "vaswani", "translate", "--model", args.model, "--buffer", 100]
    command += ["--long", "truncate"] + ([] if args.gpu else ["--cpu"])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = _start(command, log, args.threads, **pipes)
    over = threading.Event()

    def write() -> None:
        try:
            with process.stdin as stream:
                while not over.is_set():
                    stream.write(rng.choice(lines).encode("utf-8") + b"\n")
                    counts["in"] += 1
        except BrokenPipeError:
            return  # it ended; `watch` reports it

    def read() -> None:
        for _ in process.stdout:
            counts["out"] += 1

    threads = [threading.Thread(target=each, daemon=True) for each in (write, read)]
    for thread in threads:
        thread.start()
    try:
        samples = watch(process, args.minutes, lambda: counts["out"], log)
        over.set()
        for thread in threads:
            thread.join()
        if process.wait() or counts["in"] != counts["out"]:
            raise UserError(f"{counts['in']} lines in, {counts['out']} lines out, see {log}")
        return samples
    finally:
        over.set()
        _end(process)


def as_lines(part: str, found: dict[str, Any]) -> str:
    """The result of a part as text."""
    memory, files, rate = found["memory"], found["descriptors"], found["rate"]
    unit = {"train": "updates", "translate": "lines"}[part]
    return "\n".join(
        f"{part:10}{text:64}{'flat' if found['flat'][name] else 'NOT FLAT'}"
        for name, text in (
            (
                "memory",
                f"memory {memory['first'] / 2**20:,.0f} to {memory['last'] / 2**20:,.0f} MiB",
            ),
            ("descriptors", f"open files {files['first']:.0f} to {files['last']:.0f}"),
            ("rate", f"{rate['first']:.4g} to {rate['last']:.4g} {unit} a processor second"),
        )
    )


PARTS = {"train": soak_training, "translate": soak_translation}


def options() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="soak.sh", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--minutes", type=float, default=30, help="minutes of each part (default: 30)"
    )
    parser.add_argument("--data", type=Path, help="binarized data to train on")
    parser.add_argument("--arch", default="vaswani_tiny")
    parser.add_argument("--max-tokens", type=int, default=2048)
    parser.add_argument("--model", type=Path, help="a bundle to translate with")
    parser.add_argument("--lines", type=Path, help="raw text to translate, plain or .gz")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--work", type=Path, default=ROOT / "work" / "soak")
    return parser


def check(args: argparse.Namespace) -> None:
    """Check the options.

    Raises:
        UserError: a value that can't run; names the flag.
    """
    if not 0 < args.minutes < float("inf"):
        raise UserError(f"--minutes {args.minutes}: must be above 0")
    for name in ("max_tokens", "threads"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name.replace('_', '-')} {getattr(args, name)}: must be at least 1")
    needed = {"train": ("data",), "translate": ("model", "lines")}
    for name in (name for part in args.parts for name in needed[part]):
        path = getattr(args, name)
        if path is None or not path.exists():
            raise UserError(f"--{name} {path}: not there; give it, or choose --parts")


def main(argv: list[str] | None = None) -> None:
    """Command line; exit code 1 where something grew or slowed down."""
    args = options().parse_args(argv)
    check(args)
    args.work.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"benchmark": "soak", "minutes": args.minutes, "threads": args.threads}
    for part in args.parts:
        print(f"{part}: {args.minutes:g} minutes ...", file=sys.stderr, flush=True)
        samples = PARTS[part](args)
        result[part] = verdict(samples) | {"work": samples[-1].work}
        result[part]["samples"] = [vars(sample) for sample in samples]
        print(as_lines(part, result[part]), flush=True)
    write_json(args.work / "soak.json", result)
    print(f"all figures: {args.work / 'soak.json'}")
    if not all(all(result[part]["flat"].values()) for part in args.parts):
        raise UserError(f"not everything stayed as it was, see {args.work / 'soak.json'}")


if __name__ == "__main__":
    run(main)
