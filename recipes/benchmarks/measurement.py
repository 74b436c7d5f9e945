"""Runs commands and measures wall time, CPU time, and the memory of all their processes."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from vaswani_plugin.errors import UserError  # noqa: E402

SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 0.25
"""Seconds between two samples of the memory. Samples are frequent at first, because a command may
end soon; then they become rare, because each one slows the commands down."""


@dataclass
class Command:
    """A program, with files for its standard input and output."""

    arguments: list[object]
    stdin: Path | None = None
    stdout: Path | None = None


@dataclass
class Measurement:
    """The cost of commands: wall seconds, CPU seconds, and peak memory in bytes."""

    lines: int
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


def measure(lines: int, *groups: list[Command]) -> Measurement:
    """Run groups of commands one after the other, the commands of a group in parallel.

    Args:
        lines: number of lines that the commands process.
        groups: commands, by group.

    Raises:
        UserError: a command failed; contains the end of its messages.
    """
    before, start, peak = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), 0
    for group in groups:
        with contextlib.ExitStack() as files:
            messages = [files.enter_context(tempfile.TemporaryFile()) for _ in group]
            processes = [
                _start(command, error, files)
                for command, error in zip(group, messages, strict=True)
            ]
            pause = SHORTEST_PAUSE
            try:
                while any(process.poll() is None for process in processes):
                    peak = max(peak, sum(session_memory(process.pid) for process in processes))
                    time.sleep(pause)
                    pause = min(1.5 * pause, LONGEST_PAUSE)
            except BaseException:
                for process in processes:
                    with contextlib.suppress(ProcessLookupError):  # it has ended
                        os.killpg(process.pid, signal.SIGTERM)
                raise
            for process, command, error in zip(processes, group, messages, strict=True):
                if process.returncode:
                    error.seek(0)
                    last = error.read().decode(errors="replace").strip().rpartition("\n")[2]
                    code = process.returncode
                    raise UserError(f"{command.arguments[0]} failed (exit code {code}): {last}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measurement(lines, time.perf_counter() - start, cpu, peak)


def _start(command: Command, error: IO[bytes], files: contextlib.ExitStack) -> subprocess.Popen:
    def opened(path: Path | None, mode: str) -> IO[bytes] | int:
        return files.enter_context(open(path, mode)) if path else subprocess.DEVNULL

    # A new session, by which its processes are found.
    return subprocess.Popen(
        [str(argument) for argument in command.arguments],
        stdin=opened(command.stdin, "rb"),
        stdout=opened(command.stdout, "wb"),
        stderr=error,
        start_new_session=True,
        env=os.environ | {"PYTHONUTF8": "1"},
    )
