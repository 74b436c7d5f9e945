"""Runs scripts of data-prep/ and recipes/ as users do, by path, each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.commands import REPO, in_fork


class Runs:
    """Unpickled without care, it makes a folder."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.canary),)


def run_script(
    path: str, *args: object, stdin: bytes = b"", cwd: Path | None = None, timeout: float = 300
) -> subprocess.CompletedProcess:
    """Runs a Python script, named from the repository's root, in a fork."""
    return in_fork(REPO / path, *args, stdin=stdin, cwd=cwd, timeout=timeout)


def quick_environment() -> dict[str, str]:
    """The test's own, with one thread and the commands of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"OMP_NUM_THREADS": "1", "PATH": path}


def run_bash(
    *args: object, timeout: float = 600, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess:
    """Runs bash with arguments; `environment` is added to `quick_environment`."""
    options = {"capture_output": True, "text": True, "cwd": cwd, "timeout": timeout}
    environment = quick_environment() | environment
    return subprocess.run(["bash", *map(str, args)], env=environment, **options)


def assert_one_line_error(done: subprocess.CompletedProcess, *parts: str) -> None:
    """The process failed with one line on stderr that holds each of `parts`, and no traceback."""
    assert done.returncode not in (0, None), done.stdout
    lines = done.stderr.strip().split("\n")
    assert len(lines) == 1, done.stderr
    for part in parts:
        assert part in lines[0], f"{part!r} is not in {lines[0]!r}"
