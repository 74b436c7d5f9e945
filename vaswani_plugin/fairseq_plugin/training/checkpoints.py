"""The checkpoints of a save folder: its lock, and what a start resumes from."""

import errno
import fcntl
import logging
import os
import pickle
import re
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TextIO

import torch

from vaswani_plugin.errors import CheckpointError, UserError
from vaswani_plugin.inference.checkpoints import damage

logger = logging.getLogger(__name__)

# Errors that the unpickler raises for a broken file, or for a file that is no pickle.
_UNREADABLE = (
    *(pickle.UnpicklingError, OSError, RuntimeError, EOFError, LookupError),
    *(AttributeError, TypeError, ValueError, AssertionError, struct.error),
)

# --- one run at a time ---

LOCK = ".lock"
_held: dict[Path, TextIO] = {}


def hold(folder: Path) -> None:
    """Lock a save folder for the life of this process.

    This is a record lock (``lockf``). The system releases it when the process ends, also after a
    kill. Data-loader workers, which may outlive a killed run by seconds, don't inherit it.
    """
    folder = folder.resolve()
    if folder in _held:
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = open(folder / LOCK, "a+", encoding="utf-8")  # open, and locked, until the end
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            logger.warning("--save-dir %s can't be locked (%s)", folder, error.strerror)
            return
        file.seek(0)
        holder = file.read().strip() or "another process"
        file.close()
        raise UserError(
            f"--save-dir {folder} is in use by {holder}: wait for it, end it, or give another"
            " --save-dir"
        ) from None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
    _held[folder] = file


# --- what a start resumes from ---


def choose(last: Path, suffix: str) -> Path:
    """The newest good checkpoint of a folder; `last` if there is none, as at a first start.

    Args:
        last: where fairseq looks.
        suffix: of the file names; "" without shards.

    Raises:
        CheckpointError: when there are checkpoints, and all are damaged.
    """
    others = _saved_states(last.parent, suffix)
    damaged = []
    for path in _resume_order(last, others):
        wrong = damage(path)
        if wrong is None:
            return path
        logger.warning("%s %s: looking for the checkpoint before it", path, wrong)
        damaged.append((path, wrong))
    # a file too damaged to give its update was not tried, but the training must not begin anew
    damaged += [(path, wrong) for path in others if (wrong := damage(path))]
    if damaged:
        path, wrong = damaged[0]
        raise CheckpointError(
            f"checkpoint {path} cannot be read: it {wrong}, and there is no good one in its folder;"
            " use another one that you put back there, or give another --save-dir to train from the"
            " start"
        )
    return last


def _saved_states(folder: Path, suffix: str) -> list[Path]:
    """The checkpoints that fairseq wrote to a folder, except checkpoint_last.pt."""
    names = rf"checkpoint(\d+|_\d+_\d+|_best|\.best_.+){re.escape(suffix)}\.pt"
    return [path for path in folder.glob("checkpoint*.pt") if re.fullmatch(names, path.name)]


def _resume_order(last: Path, others: list[Path]) -> Iterator[Path]:
    """The checkpoints of a folder in the order in which they are tried.

    A save writes `last` after its other files. If a save was interrupted, a file with more updates
    was written after `last`: this file is complete and comes first. The order of writing is the
    order of the times of change (ctime). Moving or copying an older file to `last` sets its ctime,
    so a file that the user put there is used. Other files are opened only if they are newer than
    `last`, or if `last` is damaged.
    """
    newer: list[Path] = others
    if last.is_file():
        written = last.stat().st_ctime_ns
        newer = [path for path in others if path.stat().st_ctime_ns > written]
        before = (_updates_of(last) or 0) if newer else 0
        newer = [path for path in newer if (_updates_of(path) or 0) > before]
    yield from _by_updates(newer)
    if last.is_file():
        yield last
        yield from _by_updates(path for path in others if path not in newer)


def _by_updates(paths: Iterable[Path]) -> list[Path]:
    found = [(updates, path) for path in paths if (updates := _updates_of(path)) is not None]
    return [path for _, path in sorted(found, reverse=True)]


def _updates_of(path: Path) -> int | None:
    """The update after which a checkpoint was saved; None if no training can resume from it.

    Reads the file's table of contents, not the weights.
    """
    try:
        state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        resumable = "train_iterator" in state["extra_state"] and state.get("last_optimizer_state")
        return state["optimizer_history"][-1]["num_updates"] if resumable else None
    except _UNREADABLE:
        return None


def patience() -> dict[str, float]:
    """What --patience counts: the best validation, and the number of validations since then."""
    counted = [vars(function) for function in _early_stopping() if hasattr(function, "best")]
    return {key: float(counted[0][key]) for key in ("best", "num_runs")} if counted else {}


def restore_patience(counted: dict[str, float]) -> None:
    """Go on counting from a checkpoint; fairseq would begin anew and train on."""
    for function in _early_stopping():
        vars(function).update(counted)


def _early_stopping() -> list[Callable]:
    """fairseq's function that counts, of each module that is its command."""
    modules = (sys.modules.get(name) for name in ("fairseq_cli.train", "__main__"))
    return [module.should_stop_early for module in modules if hasattr(module, "should_stop_early")]
