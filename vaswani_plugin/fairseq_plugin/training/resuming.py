"""Training resumes from the newest good checkpoint of its folder and logs the lost updates."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from fairseq.file_io import PathManager

from vaswani_plugin.checkpoint_sums import damage
from vaswani_plugin.errors import CheckpointError, UserError
from vaswani_plugin.fairseq_plugin.training.folder import read_progress, saved_states, updates_of

logger = logging.getLogger(__name__)

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
