"""Runs fairseq-train and measures the cost of each update.

    train_once.py REPORT [--synchronize] [--idle-after=N] -- DATA_BIN --arch ...

All arguments after `--` are fairseq-train's. REPORT is a JSON file with the peak memory and, for
each update, the seconds of waiting for its batch and of the update itself (wall and CPU time), the
seconds of each part, and the lengths in the batch.
--synchronize waits for the GPU at the end of each part; without it the times of parts are wrong.
--idle-after also reports the fraction of time in which the device was idle, after the first N
updates. It uses PyTorch's profiler, which takes time itself: ignore that run's other figures.
"""

import contextlib
import json
import os
import resource
import sys
import time
import traceback
from pathlib import Path

import torch

PARTS = ("forward", "backward", "reduce-grads", "multiply-grads", "clip-grads", "optimizer")
"""The parts of an update that fairseq's trainer marks for PyTorch's profiler."""


class IdleTime:
    """Measures the share of time in which a device computed nothing.

    Args:
        after: number of updates before the first that counts.
    """

    def __init__(self, after: int) -> None:
        self.after = after
        self.profiler: torch.profiler.profile | None = None
        self.kind = torch.autograd.DeviceType.CUDA
        activity = torch.profiler.ProfilerActivity.CUDA
        if not torch.cuda.is_available():
            self.kind = torch.autograd.DeviceType.CPU
            activity = torch.profiler.ProfilerActivity.CPU
        self.activity = activity

    def begin(self, update: int) -> None:
        """Call before each update; `update` counts from 0."""
        if update == self.after:
            self.profiler = torch.profiler.profile(activities=[self.activity])
            self.profiler.start()
            self.start = time.perf_counter()

    def share(self) -> float | None:
        """The share, to call after the last update; None if no update counted."""
        if self.profiler is None:
            return None
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - self.start
        self.profiler.stop()
        events = [e for e in self.profiler.events() if e.device_type == self.kind]
        return 1 - union([(e.time_range.start, e.time_range.end) for e in events]) / 1e6 / seconds


def union(intervals: list[tuple[float, float]]) -> float:
    """The length of the union of intervals (start, end)."""
    covered, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


class Watch:
    """Records what fairseq's trainer does, update by update."""

    def __init__(self, synchronize: bool, idle: IdleTime | None = None) -> None:
        self.synchronize, self.idle = synchronize, idle
        self.updates: list[dict] = []
        self.parts: dict[str, float] = {}
        self.cuda_peak = 0
        self.ended = self.ended_cpu = 0.0

    @contextlib.contextmanager
    def part(self, name: str, *_):
        """Replaces torch.autograd.profiler.record_function."""
        start = self.clock()
        yield
        self.parts[name] = self.parts.get(name, 0.0) + self.clock() - start

    def clock(self) -> float:
        if self.synchronize:
            torch.cuda.synchronize()
        return time.perf_counter()

    def around(self, train_step):
        """Wrap fairseq's Trainer.train_step to record each update."""

        def recorded(trainer, samples, *args, **kwargs):
            # Recording the batch counts neither as waiting nor as part of the update.
            wait, wait_cpu = time.perf_counter() - self.ended, time.process_time() - self.ended_cpu
            batch = lengths_of(samples, trainer.task.target_dictionary.pad())
            self.parts = {}
            if self.idle is not None:
                self.idle.begin(len(self.updates))
            start, start_cpu = time.perf_counter(), time.process_time()
            logged = train_step(trainer, samples, *args, **kwargs)
            self.ended, self.ended_cpu = self.clock(), time.process_time()
            parts = {name: self.parts.get(name, 0.0) for name in PARTS}
            self.updates.append(
                {
                    "wait": wait,
                    "seconds": self.ended - start,
                    "cpu_seconds": wait_cpu + self.ended_cpu - start_cpu,
                    "parts": parts,
                    "loss": float((logged or {}).get("loss", "nan")),
                    **batch,
                }
            )
            return logged

        return recorded

    def reset_peak(self, reset):
        """Wrap fairseq's reset of the GPU's peak memory after every update to keep the maximum."""

        def kept(*args):
            self.cuda_peak = max(self.cuda_peak, torch.cuda.max_memory_allocated())
            reset(*args)

        return kept


def lengths_of(samples: list[dict], pad: int) -> dict[str, int]:
    """Sums over the sentences of an update: lengths, their products, and positions with padding."""
    names = ("source", "target", "source_pairs", "target_pairs", "cross_pairs")
    sums = dict.fromkeys((*names, "predicted", "padded"), 0)
    for sample in filter(None, samples):  # a worker without a batch uses a dummy batch
        inputs = sample["net_input"]
        source, target = (
            inputs[name].ne(pad).sum(dim=1) for name in ("src_tokens", "prev_output_tokens")
        )
        sums["source"] += int(source.sum())
        sums["target"] += int(target.sum())
        sums["source_pairs"] += int((source * source).sum())
        sums["target_pairs"] += int((target * target).sum())
        sums["cross_pairs"] += int((source * target).sum())
        sums["predicted"] += sample["ntokens"]
        sums["padded"] += inputs["src_tokens"].numel() + inputs["prev_output_tokens"].numel()
    return sums


def resident_peak() -> int:
    """Peak main memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux, getrusage's peak is at least the memory of the parent process at the start.
        peak = next(line for line in status.open() if line.startswith("VmHWM"))
        return int(peak.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def train_watched(
    report: Path, synchronize: bool, idle_after: int | None, training: list[str]
) -> None:
    """Train as fairseq-train does with the arguments `training`, and write the report."""
    idle = None if idle_after is None else IdleTime(idle_after)
    watch = Watch(synchronize, idle)
    from fairseq import trainer
    from fairseq_cli import train

    torch.autograd.profiler.record_function = watch.part
    torch.cuda.reset_peak_memory_stats = watch.reset_peak(torch.cuda.reset_peak_memory_stats)
    trainer.Trainer.train_step = watch.around(trainer.Trainer.train_step)
    libraries = resident_peak()
    sys.argv = ["fairseq-train", *training]
    watch.ended, watch.ended_cpu = time.perf_counter(), time.process_time()
    train.cli_main()
    result = {
        "updates": watch.updates,
        "peak_bytes": watch.cuda_peak or resident_peak(),
        "libraries_bytes": 0 if watch.cuda_peak else libraries,
        "idle_share": idle.share() if idle is not None else None,
    }
    part = report.with_name(report.name + ".part")
    part.write_text(json.dumps(result), encoding="utf-8")
    os.replace(part, report)


def main() -> None:
    """Command line."""
    mine, training = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    code = 0
    try:
        after = [int(flag.partition("=")[2]) for flag in mine if flag.startswith("--idle-after=")]
        after_or_none = after[0] if after else None
        train_watched(Path(mine[0]), "--synchronize" in mine, after_or_none, training)
    except Exception:
        traceback.print_exc()
        code = 1
    # fairseq's thread that prepares batches may be inside PyTorch. Then Python's normal exit would
    # abort the process.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
