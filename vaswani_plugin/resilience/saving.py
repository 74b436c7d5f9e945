"""Saves: one that fails ends the training in one line, and one before it is always kept."""

import contextlib
import os
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.trainer import Trainer

from vaswani_plugin.compat.replacing import replace
from vaswani_plugin.resilience.folder import LAST_IS_GOOD, PREVIOUS, note_progress, numbered_states


class SaveFailed(ValueError):
    """A checkpoint can't be written; the message says why and what is still there."""


def report_failed_saves() -> None:
    """A full disk ends the training, with exit code 1 and one line, and leaves the old files.

    Beside that, each save is noted by its update, and the state before it kept where it must be.
    """
    original = checkpoint_utils.save_checkpoint

    def save_checkpoint(cfg: CheckpointConfig, trainer: Trainer, *args: Any, **kwargs: Any) -> Any:
        folder, updates = Path(cfg.save_dir), trainer.get_num_updates()
        saves = trainer.should_save_checkpoint_on_current_rank and not cfg.no_save
        if saves and getattr(trainer, LAST_IS_GOOD, False):
            _keep_previous(folder, trainer.checkpoint_suffix)
        try:
            saved = original(cfg, trainer, *args, **kwargs)
            if saves and trainer.is_data_parallel_master:
                note_progress(folder, updates)
                setattr(trainer, LAST_IS_GOOD, not cfg.no_last_checkpoints)
                _forget_previous(folder, trainer.checkpoint_suffix)
        except Exception as error:
            cause = _cause_in_the_system(error)
            if cause is None:
                raise
            raise SaveFailed(
                f"the checkpoint of update {updates} can't be saved to {folder}"
                f" ({cause.strerror or cause}): the training ends here, what was saved before is"
                " unharmed; make room, and the same command goes on from there"
            ) from error
        return saved

    replace(checkpoint_utils, "save_checkpoint", save_checkpoint)


def _keep_previous(folder: Path, suffix: str) -> None:
    """Give checkpoint_last.pt a second name before it is replaced, where it is the only state.

    With --no-epoch-checkpoints and no --save-interval-updates nothing else is left to go on from
    when it turns out damaged.
    """
    last = folder / f"checkpoint_last{suffix}.pt"
    if not last.is_file() or numbered_states(folder, suffix):
        return
    link = folder / f"{PREVIOUS}{suffix}.pt.tmp"
    with contextlib.suppress(OSError):  # a file system without hard links: the copy is a luxury
        link.unlink(missing_ok=True)
        os.link(last, link)
        os.replace(link, folder / f"{PREVIOUS}{suffix}.pt")


def _forget_previous(folder: Path, suffix: str) -> None:
    """Give its room back as soon as an epoch's or an interval's state takes its place."""
    if numbered_states(folder, suffix):
        (folder / f"{PREVIOUS}{suffix}.pt").unlink(missing_ok=True)


def _cause_in_the_system(error: BaseException) -> OSError | None:
    """The operating system's error behind PyTorch's or fairseq's."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    return cause
