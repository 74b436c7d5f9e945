"""A save folder: its checkpoints, and the trainer's notes beside them."""

import json
import pickle
import re
import struct
from pathlib import Path
from typing import Any

import torch

from vaswani_plugin.text.output_files import write_json

PREVIOUS = "checkpoint_previous"

_PROGRESS = ".progress.json"
# Errors that the unpickler raises for a broken file, or for a file that is no pickle.
_UNREADABLE = (
    *(pickle.UnpicklingError, OSError, RuntimeError, EOFError, LookupError),
    *(AttributeError, TypeError, ValueError, AssertionError, struct.error),
)


def saved_states(folder: Path, suffix: str) -> list[Path]:
    """The checkpoints that fairseq or `saving` wrote to a folder, except checkpoint_last.pt.

    Args:
        folder: --save-dir.
        suffix: of the file names; "" without shards.
    """
    return _named(folder, r"\d+|_\d+_\d+|_best|_previous|\.best_.+", suffix)


def numbered_states(folder: Path, suffix: str) -> list[Path]:
    """The checkpoints that were saved by number of epoch or update; see `saved_states`."""
    return _named(folder, r"\d+|_\d+_\d+", suffix)


def _named(folder: Path, kinds: str, suffix: str) -> list[Path]:
    names = rf"checkpoint({kinds}){re.escape(suffix)}\.pt"
    return [path for path in folder.glob("checkpoint*.pt") if re.fullmatch(names, path.name)]


def updates_of(path: Path) -> int | None:
    """The update after which a checkpoint was saved; None if no training can resume from it.

    Reads the file's table of contents, not the weights.
    """
    try:
        state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        resumable = "train_iterator" in state["extra_state"] and state.get("last_optimizer_state")
        return state["optimizer_history"][-1]["num_updates"] if resumable else None
    except _UNREADABLE:
        return None


def read_json(path: Path) -> Any:
    """The content of a JSON file; None if it is missing or broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write_progress(folder: Path, updates: int) -> None:
    """Note the update of the last save, in case its file is damaged later."""
    write_json(folder / _PROGRESS, {"updates": updates})


def read_progress(folder: Path) -> int | None:
    """The update that `write_progress` noted last; None without a note."""
    noted = read_json(folder / _PROGRESS)
    return noted.get("updates") if isinstance(noted, dict) else None
