"""The checkpoints of a save folder: its lock, what a start resumes from, and saves."""

import contextlib
import errno
import json
import logging
import os
import pickle
import re
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

import torch
from fairseq.file_io import PathManager

from vaswani_plugin.errors import CheckpointError, UserError
from vaswani_plugin.inference.checkpoints import damage
from vaswani_plugin.text.outputs import write_json

try:
    import fcntl
except ImportError:  # Windows, where nothing here is locked
    fcntl = None

logger = logging.getLogger(__name__)

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


# --- one run at a time ---

LOCK = ".lock"
_held: dict[Path, TextIO] = {}


class FolderInUse(UserError):
    """Another process trains into the same folder; the message says which."""


def hold(folder: Path) -> None:
    """Lock a save folder for the life of this process.

    This is a record lock (``lockf``). The system releases it when the process ends, also after a
    kill. Data-loader workers, which may outlive a killed run by seconds, don't inherit it.

    Args:
        folder: --save-dir; created if it is missing.

    Raises:
        FolderInUse: when another process holds it.
    """
    folder = folder.resolve()
    if folder in _held or fcntl is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = open(folder / LOCK, "a+", encoding="utf-8")  # open, and locked, until the end
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read().strip() or "another process"
        file.close()
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            logger.warning(
                "--save-dir %s: the file system has no locks (%s); make sure that no other run "
                "writes there",
                folder,
                error.strerror,
            )
            return
        raise FolderInUse(
            f"--save-dir {folder} is in use by {holder}: wait for it, end it, or give another"
            " --save-dir"
        ) from None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
    _held[folder] = file


# --- what a start resumes from ---

AUTOMATIC = "checkpoint_last.pt"
"""fairseq's default of --restore-file: resume if there is a checkpoint."""

FLAGS_OF_FIRST_START = ("finetune_from_model", "continue_once")


def ignore_flags_of_first_start(cfg: Any, last: Path, suffix: str) -> None:
    """Ignore --finetune-from-model and --continue-once if the folder has a checkpoint to use.

    fairseq ignores them only if `last` is there. Otherwise it would begin anew from their file, and
    overwrite the training's other checkpoints.

    Args:
        cfg: fairseq's configuration of checkpoints; the flags are set to None.
        last: where fairseq looks.
        suffix: of the file names; "" without shards.

    Raises:
        CheckpointError: when there are checkpoints, and all are damaged.
    """
    given = [name for name in FLAGS_OF_FIRST_START if getattr(cfg, name, None) is not None]
    if not given or last.is_file() or choose(last, suffix) == last:
        return
    for name in given:
        flag = f"--{name.replace('_', '-')}"
        logger.warning("%s is ignored: %s has checkpoints to resume from", flag, last.parent)
        setattr(cfg, name, None)


def require_named_files(cfg: Any, last: Path | None, suffix: str) -> None:
    """Refuse names of files that don't exist, from which fairseq would begin with random weights.

    Args:
        cfg: fairseq's configuration of checkpoints.
        last: where fairseq looks without names; None if that doesn't count.
        suffix: of the file names; "" without shards.

    Raises:
        UserError: names the flag and the file.
    """
    named = {} if last is not None and last.is_file() else dict.fromkeys(FLAGS_OF_FIRST_START)
    named = {name: getattr(cfg, name, None) for name in named}
    restored = getattr(cfg, "restore_file", AUTOMATIC)
    if restored != AUTOMATIC:
        named["restore_file"] = restored.replace(".pt", f"{suffix}.pt")
        if named.get("finetune_from_model"):
            raise UserError("--restore-file and --finetune-from-model: give one of them")
    for name, path in named.items():
        if path is not None and not PathManager.isfile(path):
            raise UserError(
                f"--{name.replace('_', '-')} {path}: there is no such file; give its path from"
                " here, or leave the flag out"
            )


def choose(last: Path, suffix: str) -> Path:
    """The newest good checkpoint of a folder; `last` if there is none, as at a first start.

    Args:
        last: where fairseq looks.
        suffix: of the file names; "" without shards.

    Raises:
        CheckpointError: when there are checkpoints, and all are damaged.
    """
    damaged = []
    for path in resume_order(last, suffix):
        wrong = damage(path)
        if wrong is None:
            return path
        logger.warning("%s %s: looking for the checkpoint before it", path, wrong)
        damaged.append((path, wrong))
    # a file too damaged to give its update was not tried, but the training must not begin anew
    unknown = ((path, damage(path)) for path in saved_states(last.parent, suffix))
    damaged += [(path, wrong) for path, wrong in unknown if wrong]
    if damaged:
        path, wrong = damaged[0]
        raise CheckpointError(
            f"checkpoint {path} cannot be read: it {wrong}, and there is no good one in its folder;"
            " use another one that you put back there, or give another --save-dir to train from the"
            " start"
        )
    return last


def resume_order(last: Path, suffix: str) -> Iterator[Path]:
    """The checkpoints of a folder in the order in which they are tried.

    A save writes `last` after its other files. If a save was interrupted, a file with more updates
    was written after `last`: this file is complete and comes first. The order of writing is the
    order of the times of change (ctime). Moving or copying an older file to `last` sets its ctime,
    so a file that the user put there is used. Other files are opened only if they are newer than
    `last`, or if `last` is damaged.

    Args:
        last: where fairseq looks.
        suffix: of the file names; "" without shards.
    """
    others = saved_states(last.parent, suffix)
    newer: list[Path] = others
    if last.is_file():
        written = last.stat().st_ctime_ns
        newer = [path for path in others if path.stat().st_ctime_ns > written]
        newer = [path for path in newer if (updates_of(path) or 0) > (updates_of(last) or 0)]
    yield from _by_updates(newer)
    if last.is_file():
        yield last
        yield from _by_updates(path for path in others if path not in newer)


def _by_updates(paths: Iterable[Path]) -> list[Path]:
    found = [(updates, path) for path in paths if (updates := updates_of(path)) is not None]
    return [path for _, path in sorted(found, reverse=True)]


def log_lost_updates(path: Path, last: Path, updates: int) -> None:
    """Log the checkpoint that is used and the updates to repeat, unless it is the last save's.

    Args:
        path: the checkpoint that was loaded.
        last: where fairseq looks.
        updates: of the loaded checkpoint.
    """
    saved = read_progress(last.parent)
    if path == last:
        if saved is not None and saved > updates:
            logger.warning(
                "resuming from %s, update %d, although update %d was saved: the file was replaced,"
                " or the later ones are damaged or gone",
                *(path, updates, saved),
            )
        return
    if saved is None:
        lost = "what was saved after it, if anything, is lost and trained again"
    elif saved > updates:
        lost = f"{saved - updates} updates, up to the last save's {saved}, are trained again"
    else:
        lost = "no update is lost"
    logger.warning("resuming from %s, update %d: %s", path, updates, lost)


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


# --- saves ---


class SaveFailed(UserError):
    """A checkpoint can't be written; the message says why and which files are good."""


class Saves:
    """Keeps a good checkpoint in the folder at any time, and reports a save that fails."""

    def __init__(self) -> None:
        self.is_last_good = False  # checkpoint_last.pt was loaded or saved by this process

    @contextlib.contextmanager
    def saving(self, folder: Path, suffix: str, updates: int, notes: bool) -> Iterator[None]:
        """Context manager around the writing of a save's first file.

        Args:
            folder: --save-dir.
            suffix: of the file names; "" without shards.
            updates: number of updates at this save.
            notes: whether this worker notes that number in the folder.

        Raises:
            SaveFailed: the system can't write the file, as on a full disk.
        """
        if self.is_last_good:
            _keep_previous(folder, suffix)
        try:
            yield
            if notes:
                write_progress(folder, updates)
        except Exception as error:
            cause = _system_error_behind(error)
            if cause is None:
                raise
            raise SaveFailed(
                f"the checkpoint of update {updates} can't be saved to {folder}"
                f" ({cause.strerror or cause}): the training ends here, earlier checkpoints are"
                " unharmed; make room, and the same command resumes"
            ) from error


def _keep_previous(folder: Path, suffix: str) -> None:
    """Give checkpoint_last.pt a second name before it is replaced, if it is the only checkpoint.

    With --no-epoch-checkpoints and no --save-interval-updates there is no other checkpoint to
    resume from if the new one is damaged. If there are numbered ones, the second name is removed.
    """
    last = folder / f"checkpoint_last{suffix}.pt"
    previous = folder / f"{PREVIOUS}{suffix}.pt"
    if numbered_states(folder, suffix):
        previous.unlink(missing_ok=True)
    elif last.is_file():
        link = previous.with_name(previous.name + ".tmp")
        with contextlib.suppress(OSError):  # a file system without hard links
            link.unlink(missing_ok=True)
            os.link(last, link)
            os.replace(link, previous)


def _system_error_behind(error: BaseException) -> OSError | None:
    """The operating system's error that caused PyTorch's or fairseq's; None if there is none."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    return cause
