"""The checkpoints of a save folder: its lock, and what a start resumes from."""

import errno
import fcntl
import logging
import os
import socket
from pathlib import Path
from typing import Any, TextIO

import torch

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.checkpoints import damage, updates_of

logger = logging.getLogger(__name__)
_held: dict[Path, TextIO] = {}


def hold(folder: Path) -> None:
    """Lock a save folder for the life of this process, however it ends.

    Data-loader workers may outlive a killed run by seconds; they don't inherit a record lock.
    """
    folder = folder.resolve()
    if folder in _held:
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = open(folder / ".lock", "a+", encoding="utf-8")  # open, and locked, until the end
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
            f"--save-dir {folder} is in use by {holder}: wait for it, end it, or give another one"
        ) from None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
    _held[folder] = file


def choose(last: Path) -> Path:
    """`last`, or the newest good checkpoint of its folder where `last` is damaged or gone.

    Returns `last`, too, if there is no good one: a first start, or it is refused when it is loaded.
    """
    if last.is_file():
        if (wrong := damage(last)) is None:
            return last
        logger.warning("%s %s: looking for the checkpoint before it", last, wrong)
    states = {path: contents(path) for path in last.parent.glob("checkpoint*.pt")}
    resumable = [
        (updates_of(state) or 0, path)
        for path, state in states.items()
        if "train_iterator" in (state.get("extra_state") or {})
        if state.get("last_optimizer_state")
    ]
    return next((path for _, path in sorted(resumable, reverse=True) if damage(path) is None), last)


def contents(path: Path) -> dict[str, Any]:
    """A checkpoint, of which the weights are read when they are used; empty if it can't be."""
    try:
        state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        return state if isinstance(state, dict) else {}
    except Exception:  # a broken pickle raises anything
        return {}
