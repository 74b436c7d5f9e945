"""Runs a command and measures wall time, CPU time, and the memory of all its processes."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from vaswani_plugin.errors import UserError  # noqa: E402

LONGEST_PAUSE = 0.25  # seconds between two samples of the memory, each of which slows the command


@dataclass
class Measurement:
    """The cost of a command: wall seconds, CPU seconds, and peak memory in bytes."""

    wall: float
    cpu: float
    peak: int


def session_memory(session: int) -> int:
    """Memory of a session's processes in bytes, shared memory counted once (Linux; else 0)."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[3]) == session:
                rollup = (stat.parent / "smaps_rollup").read_text()
                total += int(rollup.partition("\nPss:")[2].split()[0]) * 1024
        except (OSError, ValueError, IndexError):
            continue  # the process has just ended
    return total


def measure(
    command: Sequence[object], stdin: Path | None = None, stdout: Path | None = None, **env: str
) -> Measurement:
    """Run a command that reads `stdin`, or nothing; its output goes to `stdout`, or is dropped.

    `env` are variables of its environment. If it fails, the error has the end of its messages.
    """
    before, start, peak, pause = resource.getrusage(resource.RUSAGE_CHILDREN), time.time(), 0, 0.01
    with contextlib.ExitStack() as files:
        error = files.enter_context(tempfile.TemporaryFile())
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=files.enter_context(open(stdin, "rb")) if stdin else subprocess.DEVNULL,
            stdout=files.enter_context(open(stdout, "wb")) if stdout else subprocess.DEVNULL,
            stderr=error,
            start_new_session=True,  # by it its processes are found
            env=os.environ | {"PYTHONUTF8": "1"} | env,
        )
        try:
            while process.poll() is None:
                peak = max(peak, session_memory(process.pid))
                time.sleep(pause)
                pause = min(1.5 * pause, LONGEST_PAUSE)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.killpg(process.pid, signal.SIGTERM)
            raise
        if process.returncode:
            error.seek(0)
            said = error.read().decode(errors="replace").strip().rpartition("\n")[2][:300]
            raise UserError(f"{command[0]} failed (exit code {process.returncode}): {said}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measurement(time.time() - start, cpu, peak)
