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
    resumable = []
    for path in last.parent.glob("checkpoint*.pt"):
        state = contents(path)
        if "train_iterator" in (state.get("extra_state") or {}) and state.get(
            "last_optimizer_state"
        ):
            resumable.append((updates_of(state), path))
    for _, path in sorted(resumable, reverse=True):
        if damage(path) is None:
            return path
    return last


def contents(path: Path) -> dict[str, Any]:
    """A checkpoint, of which the weights are read when they are used; empty if it can't be."""
    try:
        state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        return state if isinstance(state, dict) else {}
    except Exception:  # a broken pickle raises anything
        return {}


def option(state: dict[str, Any], section: str, name: str) -> Any:
    """An option of the training that saved a checkpoint; None if it has no such configuration."""
    options = (state.get("cfg") or {}).get(section)
    return options.get(name) if isinstance(options, dict) else None


def updates_of(state: dict[str, Any]) -> int:
    """The update after which a checkpoint was saved, or 0."""
    history = state.get("optimizer_history") or [{}]
    return history[-1].get("num_updates", 0)
