"""Runs Python programs in forks of one process that has imported torch and fairseq.

Importing them takes five seconds, a test's training often one. A program that runs here has its own
arguments, environment, working directory and standard streams, and ends as it would by itself. The
plugin isn't imported before the fork. Programs that need neither torch nor fairseq are forks of a
smaller process: to fork a large one takes a tenth of a second.

    preloaded.run("-m", "fairseq_cli.train", ...)   as subprocess.run([sys.executable, "-m", ...])
    preloaded.run_with_torch("-c", ...)             the same, with torch alone imported
    preloaded.commands()                            a folder for PATH: fairseq-train, python, ...

The process is `preloaded_server.py`; each program's streams are those of a `preloaded_client.py`.
"""

import atexit
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from preloaded_client import is_text_program

SECONDS_TO_START = 120
SERVER = Path(__file__).with_name("preloaded_server.py")
CLIENT = Path(__file__).with_name("preloaded_client.py")
COMMANDS = (
    *("fairseq-train", "fairseq-generate", "fairseq-preprocess", "fairseq-interactive"),
    *("fairseq-eval-lm", "vaswani", "torchrun"),
)
_servers: dict[str, Path] = {}


def _folder(package: str = "fairseq") -> Path:
    """The folder of this process's server, which is started by the first call.

    Args:
        package: what it has imported: "fairseq", "torch" alone, or "text", which means the
            packages that data-prep/ needs.
    """
    if package not in _servers:
        folder = Path(tempfile.mkdtemp(prefix="preloaded-"))
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        environment.pop("PYTHONPATH", None)
        process = subprocess.Popen(
            [sys.executable, str(SERVER), str(folder / "socket"), package],
            stdin=subprocess.PIPE,  # the server ends when this end is closed
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        atexit.register(_stop, process, folder)
        until = time.monotonic() + SECONDS_TO_START
        while not (folder / "socket").exists():
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the process that preloads {package} did not start")
            time.sleep(0.05)
        _servers[package] = folder
    return _servers[package]


def _write_command(path: Path, command: str) -> None:
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)


def _stop(server: subprocess.Popen, folder: Path) -> None:
    server.communicate()
    shutil.rmtree(folder, ignore_errors=True)


def _client(*folders: Path) -> list[str]:
    """The command of a client; only Python's own modules are imported, and quickly.

    Args:
        folders: of a server; and, where there are two, of the one for programs on text.
    """
    sockets = ",".join(str(folder / "socket") for folder in folders)
    return [sys.executable, "-I", "-S", str(CLIENT), sockets, sys.executable]


def run(*arguments: object, **options) -> subprocess.CompletedProcess:
    """`subprocess.run` of Python: ``-m MODULE ...``, ``-c CODE ...`` or ``FILE ...``."""
    words = [str(argument) for argument in arguments]
    package = "text" if is_text_program(words) else "fairseq"
    return subprocess.run([*_client(_folder(package)), *words], **options)


def run_with_torch(*arguments: object, **options) -> subprocess.CompletedProcess:
    """As `run`; torch is imported already, fairseq and what it brings are not."""
    return subprocess.run(command_with_torch(*arguments), **options)


def command_with_torch(*arguments: object) -> list[str]:
    """What starts such a program: for one that a test talks to."""
    return [*_client(_folder("torch")), *map(str, arguments)]


def commands() -> str:
    """A folder with `COMMANDS` and python, to be put in front of PATH."""
    folder = _folder() / "bin"
    if not folder.exists():
        folder.mkdir()
        client = _client(_folder(), _folder("text"))
        for name in COMMANDS:
            program = str(Path(sys.executable).with_name(name))
            _write_command(folder / name, shlex.join([*client, program]))
        _write_command(folder / "python", shlex.join(client))
    return str(folder)
