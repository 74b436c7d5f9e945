"""The checkpoints of a save folder: its lock, and what a start resumes from."""

import errno
import fcntl
import logging
import os
import socket
from pathlib import Path
from typing import TextIO

import torch

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.checkpoints import damage

logger = logging.getLogger(__name__)

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


def choose(last: Path) -> Path:
    """`last`, or the newest good checkpoint of its folder where `last` is damaged or gone.

    Returns `last`, too, if there is no good one: a first start, or it is refused when it is loaded.
    """
    if last.is_file():
        if (wrong := damage(last)) is None:
            return last
        logger.warning("%s %s: looking for the checkpoint before it", last, wrong)
    paths = last.parent.glob("checkpoint*.pt")
    found = [(updates, path) for path in paths if (updates := _updates_of(path)) is not None]
    for _, path in sorted(found, reverse=True):
        if damage(path) is None:
            return path
    return last


def _updates_of(path: Path) -> int | None:
    """The update after which a checkpoint was saved; None if no training can resume from it.

    Reads the file's table of contents, not the weights.
    """
    try:
        state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        resumable = "train_iterator" in state["extra_state"] and state.get("last_optimizer_state")
        return state["optimizer_history"][-1]["num_updates"] if resumable else None
    except Exception:  # a broken pickle raises anything
        return None
