"""What recipes of several trainings share: a folder for each, commands, and the way to go on.

A training's folder holds `key`, all on which its result depends, and `result.json` at the end.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from vaswani_plugin.text.corpus_io import InputError, read_json, write_atomically

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ["--user-dir", str(ROOT / "vaswani_plugin"), "--task", "vaswani_translation"]


def device_flags(gpus: int) -> list[str]:
    """Where fairseq-train works: on so many GPUs of this machine, or (0) on the CPU."""
    return ["--distributed-world-size", str(gpus)] if gpus else ["--cpu"]


def begin(folder: Path, key: str) -> None:
    """Makes the folder of a training; what was begun there under another key is removed."""
    begun = folder / "key"
    if begun.is_file() and begun.read_text(encoding="utf-8") == key + "\n":
        return
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    with write_atomically(begun) as write:
        write(key)


def finished(folder: Path, key: str) -> dict[str, Any] | None:
    """A training's result; None where there is none, or one of another key.

    Raises:
        InputError: its file is broken.
    """
    path = folder / "result.json"
    try:
        result = read_json(path, "delete it, and it is trained again")
    except FileNotFoundError:
        return None
    if not isinstance(result, dict):
        raise InputError(f"{path}: no training's result: delete it, and it is trained again")
    return result if result.get("key") == key else None


def execute(command: list[str], output: Path, environment: dict[str, str]) -> None:
    """Runs a command; all it prints is added to `output`.

    Raises:
        InputError: it failed; names the file and its last line.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    with open(output, "ab") as stream:
        # close_fds=False: the folder's lock is held for as long as a training lives.
        done = subprocess.run(
            command, stdout=stream, stderr=stream, env=environment, close_fds=False
        )
    if done.returncode:
        last = output.read_text(encoding="utf-8", errors="replace").strip().split("\n")[-1]
        raise InputError(f"{output}: {command[0]} ended with {done.returncode}: {last[:300]}")
