"""A save folder: which states of a training lie in it, and what the plugin notes beside them."""

import contextlib
import json
import os
import pickle
import re
import struct
from pathlib import Path
from typing import Any

import torch

PREVIOUS = "checkpoint_previous"
LAST_IS_GOOD = "vaswani_last_is_good"
"""A trainer's note that checkpoint_last.pt is what this process has loaded or saved."""

_PROGRESS = ".progress.json"
# What the unpickler stumbles over in bytes that are a broken pickle or never were one.
_UNREADABLE = (
    *(pickle.UnpicklingError, OSError, RuntimeError, EOFError, LookupError),
    *(AttributeError, TypeError, ValueError, AssertionError, struct.error),
)


def saved_states(folder: Path, suffix: str) -> list[Path]:
    """The checkpoints that fairseq or `saving` left in a folder, but for the last one.

    Args:
        folder: --save-dir.
        suffix: fairseq's, "" without shards.
    """
    names = rf"checkpoint(\d+|_\d+_\d+|_best|_previous|\.best_.+){re.escape(suffix)}\.pt"
    return [path for path in folder.glob("checkpoint*.pt") if re.fullmatch(names, path.name)]


def numbered_states(folder: Path, suffix: str) -> list[Path]:
    """Those of an epoch's end or of an interval."""
    names = rf"checkpoint(\d+|_\d+_\d+){re.escape(suffix)}\.pt"
    return [path for path in folder.glob("checkpoint*.pt") if re.fullmatch(names, path.name)]


def updates_of(path: Path) -> int | None:
    """The update after which a state was saved; None where no training can go on from the file.

    Reads the table of contents, not the weights.
    """
    try:
        state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        resumable = "train_iterator" in state["extra_state"] and state.get("last_optimizer_state")
        return state["optimizer_history"][-1]["num_updates"] if resumable else None
    except _UNREADABLE:
        return None


def write_json(path: Path, content: Any) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def read_json(path: Path) -> Any:
    """What `write_json` wrote; None where there is no such file, or one that is broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def note_progress(folder: Path, updates: int) -> None:
    """Note the update of the last save, for the day on which its file can't tell."""
    write_json(folder / _PROGRESS, {"updates": updates})


def noted_progress(folder: Path) -> int | None:
    """What `note_progress` noted last."""
    noted = read_json(folder / _PROGRESS)
    return noted.get("updates") if isinstance(noted, dict) else None
