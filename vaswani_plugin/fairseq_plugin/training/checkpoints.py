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
from collections.abc import Callable
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
    """`last`, or the newest good checkpoint of its folder where `last` is damaged or gone.

    Args:
        last: where fairseq looks; returned if the folder has no checkpoint, as at a first start.
        suffix: of the file names; "" without shards.

    Raises:
        CheckpointError: when there are checkpoints, and all are damaged.
    """
    damaged = {}
    if last.is_file():
        if (wrong := damage(last)) is None:
            return last
        logger.warning("%s %s: looking for the checkpoint before it", last, wrong)
        damaged[last] = wrong
    names = rf"checkpoint(\d+|_\d+_\d+|_best|\.best_.+){re.escape(suffix)}\.pt"
    others = [path for path in last.parent.glob("checkpoint*.pt") if re.fullmatch(names, path.name)]
    found = [(updates, path) for path in others if (updates := _updates_of(path)) is not None]
    for _, path in sorted(found, reverse=True):
        if damage(path) is None:
            return path
    # a file too damaged to give its update counts, too: the training must not begin anew
    damaged |= {path: wrong for path in others if (wrong := damage(path))}
    if not damaged:
        return last
    path, wrong = next(iter(damaged.items()))
    raise CheckpointError(
        f"checkpoint {path} cannot be read: it {wrong}, and there is no good one in its folder; use"
        " another one that you put back there, or give another --save-dir to train from the start"
    )


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
