"""Faults for one fork: a signal at the n-th of some event, or a disk that fills up."""

import io
import os
import random
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from vaswani_plugin.fairseq_plugin.adam import VaswaniAdam
from vaswani_plugin.fairseq_plugin.patches import checkpoints
from vaswani_plugin.fairseq_plugin.training.trainer import VaswaniTrainer

# Where a signal may come, and up to which of these events: few, so that it comes before the end.
EVENTS = {
    "step": (VaswaniTrainer, "clip_grad_norm", 10),
    "optimizer": (VaswaniAdam, "step", 10),
    "validation": (VaswaniTrainer, "valid_step", 9),
    "rename": (PathManager, "rename", 3),
    "replace": (os, "replace", 6),
    "remove": (os, "remove", 2),
}
KINDS = (*EVENTS, "write", "copy", "clock", "full")
LONGEST = 4.0
"""Seconds within which the clock's signal comes."""


@dataclass(frozen=True)
class Fault:
    """What happens to a run; `times` counts events, `share` is of a file or of `LONGEST`."""

    kind: str
    number: signal.Signals
    times: int
    share: float

    def __str__(self) -> str:
        if self.kind == "full":
            return f"disk full in save {self.times}"
        return f"{self.number.name} in {self.kind} {self.times} ({self.share:.2f})"


def draw(rng: random.Random, kinds: tuple[str, ...]) -> Fault:
    """A fault at random."""
    kind = rng.choice(kinds)
    number = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
    most = EVENTS[kind][2] if kind in EVENTS else 3
    return Fault(kind, number, rng.randint(1, most), rng.random())


def install(fault: Fault, marker: Path) -> None:
    """Prepare this process for it; `marker` appears when it has come."""

    def strike() -> None:
        marker.touch()
        os.kill(os.getpid(), fault.number)

    if fault.kind in EVENTS:
        owner, name, _ = EVENTS[fault.kind]
        _wrap(owner, name, lambda call: _around(call, strike, fault.share < 0.5), fault.times)
    elif fault.kind == "write":
        _wrap(torch, "save", lambda call: _in_write(call, strike, fault.share), fault.times)
    elif fault.kind == "copy":
        _wrap(shutil, "copyfile", lambda call: _in_copy(call, strike, fault.share), fault.times)
    elif fault.kind == "clock":
        threading.Thread(target=_after, args=(fault.share * LONGEST, strike), daemon=True).start()
    else:
        checkpoints.SAVE_PAUSE = 0.01
        owner, name = (checkpoint_utils, "torch_persistent_save")
        if fault.share < 0.3:
            owner, name = shutil, "copyfile"
        _wrap(owner, name, lambda call: _without_room(call, marker, fault.share), fault.times)


def _wrap(owner: Any, name: str, change: Callable, times: int) -> None:
    """Make the `times`-th call of a function another one."""
    original, calls = getattr(owner, name), []

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        call = change(original) if len(calls) == times else original
        return call(*args, **kwargs)

    setattr(owner, name, staticmethod(counted) if owner is PathManager else counted)


def _around(call: Callable, strike: Callable[[], None], before: bool) -> Callable:
    def struck(*args: Any, **kwargs: Any) -> Any:
        if before:
            strike()
        result = call(*args, **kwargs)
        if not before:
            strike()
        return result

    return struck


def _in_write(save: Callable, strike: Callable[[], None], share: float) -> Callable:
    def struck(state: Any, file: Any, *args: Any, **kwargs: Any) -> None:
        whole = io.BytesIO()
        save(state, whole, *args, **kwargs)
        content = whole.getvalue()
        half = int(len(content) * share)
        file.write(content[:half])
        file.flush()
        strike()
        file.write(content[half:])

    return struck


def _in_copy(copyfile: Callable, strike: Callable[[], None], share: float) -> Callable:
    def struck(source: str, destination: str) -> str:
        content = Path(source).read_bytes()
        Path(destination).write_bytes(content[: int(len(content) * share)])
        strike()
        return copyfile(source, destination)

    return struck


def _after(seconds: float, strike: Callable[[], None]) -> None:
    time.sleep(seconds)
    strike()


def _without_room(write: Callable, marker: Path, share: float) -> Callable:
    def struck(*args: Any, **kwargs: Any) -> Any:
        marker.touch()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        room = int(share * 600_000)  # the files of `vaswani_debug` have 650 kB
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        try:
            return write(*args, **kwargs)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)  # the log is a file as well

    return struck


def damage_at_random(path: Path, rng: random.Random) -> str:
    """Truncate a file, empty it, flip bits or clear a page; returns what was done."""
    content = bytearray(path.read_bytes())
    kind = rng.choice(["cut", "cut", "empty", "flip", "flip", "page"])
    if kind == "cut":
        content = content[: rng.randrange(len(content))]
    elif kind == "empty":
        content = bytearray()
    elif kind == "flip":
        for _ in range(rng.randint(1, 30)):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    else:
        start = rng.randrange(0, len(content), 4096)
        content[start : start + 4096] = bytes(len(content[start : start + 4096]))
    path.write_bytes(content)
    return f"{kind} {path.name}"
