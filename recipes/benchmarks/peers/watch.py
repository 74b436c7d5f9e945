"""What the drivers of training.sh share: they train until enough updates are seen, and report them.

    python train_NAME.py JOB REPORT

JOB (JSON, by training.py) has sizes, data, batch and updates. This file runs in the environments of
other toolkits, so it imports nothing but the standard library and PyTorch.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Job = dict[str, Any]


class Enough(BaseException):
    """The training has made its updates. No toolkit catches it by `except Exception`."""


class Watch:
    """Records the updates of a training, and ends it by raising `Enough`.

    The time of an update is that since the end of the one before, so it includes its batch.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.rows: list[dict[str, float]] = []
        self.pending: dict[str, float] = {}
        self.last = time.perf_counter(), time.process_time()
        self.profiler: Any = None

    def count(self, **numbers: float) -> None:
        """Add to the figures of this update, such as `target` tokens without padding."""
        for name, number in numbers.items():
            self.pending[name] = self.pending.get(name, 0) + number

    def update(self, *_: object) -> None:
        """Call at the end of an update; raises `Enough` at the last one."""
        if self.job["gpu"]:
            import torch

            torch.cuda.synchronize()
        now = time.perf_counter(), time.process_time()
        seconds = {"seconds": now[0] - self.last[0], "cpu_seconds": now[1] - self.last[1]}
        self.rows.append(seconds | self.pending)
        self.pending, self.last = {}, now
        if self.job["profile"] and len(self.rows) == self.job["warm_up"]:
            from torch.profiler import profile

            self.profiler = profile()
            self.profiler.start()
        if len(self.rows) == self.job["warm_up"] + self.job["updates"]:
            raise Enough

    def follow_optimizers(self) -> None:
        """Take every step of an optimizer of PyTorch as the end of an update."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(self.update)


def peak_memory(gpu: bool) -> int:
    """Peak memory in bytes: of the process, or of its tensors on the GPU."""
    if gpu:
        import torch

        return torch.cuda.max_memory_allocated()
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, getrusage's peak is at least that of the parent at the start
        return next(int(x.split()[1]) * 1024 for x in status.open() if x.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def read_lines(path: str) -> list[str]:
    """The lines of a file; only a line feed ends a line."""
    return Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")


def words_of(job: Job) -> list[str]:
    """The entries of fairseq's dictionary, without their counts."""
    return [line.rpartition(" ")[0] for line in read_lines(job["dictionary"])]


def run(train: Callable[[Job, Watch], None]) -> None:
    """Command line of a driver; `train` never returns: the watch ends it."""
    job, report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
    del sys.argv[1:]  # toolkits read it
    watch = Watch(job)
    try:
        train(job, watch)
        raise SystemExit("the training ended before it had made all its updates")
    except Enough:
        result = {"updates": watch.rows, "peak_bytes": peak_memory(job["gpu"])}
    if watch.profiler is not None:
        watch.profiler.stop()
        column = f"self_{'device' if job['gpu'] else 'cpu'}_time_total"
        functions = watch.profiler.key_averages()
        result["profile"] = functions.table(sort_by=column, row_limit=30, max_name_column_width=50)
    report.write_text(json.dumps(result), encoding="utf-8")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a thread that reads ahead may be inside PyTorch, where Python's own exit aborts
