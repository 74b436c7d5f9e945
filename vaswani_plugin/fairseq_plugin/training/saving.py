"""A failed save ends the training with a one-line error; the previous save is always kept."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.training.folder import PREVIOUS, numbered_states, write_progress


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
