"""Checkpoints: loaded with ``weights_only`` on, refused with a reason, saved atomically."""

import argparse
import contextlib
import errno
import io
import os
import pickle
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from torch import _weights_only_unpickler

from vaswani_plugin.errors import CheckpointError, UserError
from vaswani_plugin.fairseq_plugin.patches._patching import is_affected_version, patch
from vaswani_plugin.inference.checkpoints import HARMLESS_GLOBALS, damage
from vaswani_plugin.inference.models import mismatches_explained

LONGEST_REFUSAL = 2000
"""Longest message of a refused pickle, in characters, that PyTorch gets; the rest is cut off."""
_OTHER_COPY = "use another one of the same folder, or copy it again"


def allow_harmless_globals() -> None:
    """fairseq's own checkpoints no longer load.

    Since PyTorch 2.6, ``torch.load`` unpickles tensors and plain containers only
    (``weights_only``). This stays on, because a checkpoint may come from anyone. The patch allows
    only classes that hold data and run no code when they are built.

    Upstream: #5610.
    Versions: seen in fairseq-fixed 0.12.3.1, with PyTorch 2.6 or newer.
    """
    probe = io.BytesIO()
    torch.save([argparse.Namespace(), np.float64(1), np.zeros(1)], probe)
    probe.seek(0)
    try:
        torch.load(probe)
    except pickle.UnpicklingError:
        torch.serialization.add_safe_globals(list(HARMLESS_GLOBALS))


def shorten_messages_about_pickles() -> None:
    """A small file that is no checkpoint keeps ``torch.load`` busy for minutes.

    PyTorch searches the error message of a refused pickle for a pattern. The time grows with the
    square of the message's length, which the file controls.

    Upstream: none known; a defect of PyTorch.
    Versions: PyTorch 2.13 with any fairseq.
    """

    @patch(_weights_only_unpickler.Unpickler, "load")
    def load(original: Callable, self: _weights_only_unpickler.Unpickler) -> Any:
        try:
            return original(self)
        except pickle.UnpicklingError as error:
            raise pickle.UnpicklingError(str(error)[:LONGEST_REFUSAL]) from error


def refuse_unusable_checkpoints() -> None:
    """A bad checkpoint fails with a long PyTorch message, without its name, or not at all.

    PyTorch does not verify the checksums that it wrote, so a flipped bit changes a weight. Now a
    file that would run code is refused, and the message names it and the function that it would
    call. For a foreign or damaged file the message names the remedy. All are ``CheckpointError``.

    Upstream: #5610.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """

    @patch(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(
        original: Callable, path: str, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        wrong = damage(path) if os.path.isfile(path) else None
        if wrong:
            raise CheckpointError(f"checkpoint {path} cannot be read: it {wrong}; {_OTHER_COPY}")
        try:
            return original(path, *args, **kwargs)
        except OSError as error:
            if error.errno != errno.EINVAL:  # PyTorch seeks before the start of a short file
                raise
            raise CheckpointError(f"checkpoint {path} {_why_unusable(error)}") from error
        except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, TypeError) as error:
            raise CheckpointError(f"checkpoint {path} {_why_unusable(error)}") from error


def _why_unusable(error: Exception) -> str:
    """The reason, as the rest of a sentence that starts with the file's name."""
    text = str(error)
    foreign = re.search(r"GLOBAL ([\w.]+)", text) if isinstance(error, pickle.PickleError) else None
    if foreign is not None:
        return (
            f"refused: it would call {foreign[1]}, which is no data of a model, and nothing of it"
            " was run; use a checkpoint from a source that you trust"
        )
    if isinstance(error, (KeyError, TypeError)):
        return f"is no checkpoint of fairseq ({error!r}); give one that fairseq-train wrote"
    reason = next(filter(None, map(str.strip, text.splitlines())), type(error).__name__)
    return f"cannot be read: the file is truncated or no checkpoint ({reason}); {_OTHER_COPY}"


def explain_mismatched_models() -> None:
    """A dictionary or architecture that is not the checkpoint's fails with a list of all weights.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """

    @patch(checkpoint_utils, "load_model_ensemble_and_task")
    def load_model_ensemble_and_task(
        original: Callable, filenames: list[str], *args: Any, **kwargs: Any
    ) -> Any:
        with mismatches_explained(", ".join(filenames)):
            return original(filenames, *args, **kwargs)


SAVE_TRIES = 3
SAVE_PAUSE = 2.5
"""Seconds before a failed save is tried again; the numbers are fairseq's."""


def restart_failed_saves() -> None:
    """A save that is tried again is appended to the file of the failed try.

    If the disk was full or missing for a second, the file begins with half a checkpoint and cannot
    be read. A save that fails in all tries leaves its file on the full disk.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if not is_affected_version():
        return

    @patch(checkpoint_utils, "_torch_persistent_save")
    def _torch_persistent_save(original: Callable, obj: Any, f: str | BinaryIO) -> None:
        if isinstance(f, str) or not f.seekable():
            original(obj, f)
            return
        for tries_left in reversed(range(SAVE_TRIES)):
            try:
                torch.save(obj, f)
                return
            except Exception:
                if not tries_left:
                    raise
                time.sleep(SAVE_PAUSE)
                f.seek(0)
                f.truncate()

    @patch(checkpoint_utils, "torch_persistent_save")
    def torch_persistent_save(
        original: Callable, obj: Any, filename: str, async_write: bool = False
    ) -> None:
        with _removed_on_failure(filename + ".tmp"):
            original(obj, filename, async_write=async_write)


def copy_checkpoints_atomically() -> None:
    """A kill while checkpoint_last.pt is written leaves half a file.

    fairseq renames the first file of a save into place, but copies the others, such as
    ``checkpoint_last.pt``, over the old ones. Now these are also written under another name first.
    A copy that fails ends in a one-line error.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if not is_affected_version():
        return

    @patch(PathManager, "copy")
    def copy(original: Callable, src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if not overwrite or not PathManager.supports_rename(dst_path):
            return original(src_path, dst_path, overwrite=overwrite)
        temporary = dst_path + ".tmp"
        try:
            with _removed_on_failure(temporary):
                copied = original(src_path, temporary, overwrite=True)
                _sync(temporary)
                os.replace(temporary, dst_path)
        except OSError as error:
            raise UserError(
                f"{dst_path} can't be made a copy of {src_path} ({error.strerror or error}): make"
                " room, and the same command continues from the last save"
            ) from error
        return copied


def sync_before_rename() -> None:
    """A checkpoint is renamed before it is on the disk.

    After a power cut the file of the new name may be empty, and the old file is gone.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if not is_affected_version():
        return

    @patch(PathManager, "rename")
    def rename(original: Callable, src: str, dst: str) -> None:
        _sync(src)
        original(src, dst)


def save_intervals_at_epoch_ends() -> None:
    """No interval checkpoint is written if its update is the last of an epoch.

    With ``--save-interval-updates 5`` and epochs of 15 updates, ``checkpoint_1_15.pt`` is missing,
    and an average of the last checkpoints takes older ones. Now this checkpoint is written, too,
    and ``--keep-interval-updates`` counts it.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if is_affected_version():
        patch(checkpoint_utils, "save_checkpoint")(_save_all)


def keep_as_many_best_as_asked() -> None:
    """``--keep-best-checkpoints 3`` keeps one if the first validations are the best.

    As in fine-tuning. fairseq compares with the worst file that is kept, even if there are fewer.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if not is_affected_version():
        return
    patch(checkpoint_utils, "save_checkpoint")(_save_all)

    @patch(checkpoint_utils, "checkpoint_paths")
    def checkpoint_paths(original: Callable, path: str, *args: Any, **kwargs: Any) -> list:
        found = original(path, *args, **kwargs)
        pattern = str(args[0] if args else kwargs.get("pattern", ""))
        wanted, worst = _BEST.get("count", 0), _BEST.get("worst", "")
        is_short = pattern.startswith(r"checkpoint\.best_") and len(found) < wanted
        return [f"{worst}.pt"] if is_short else found  # fairseq reads the value off the name


_BEST: dict[str, Any] = {}
"""While a checkpoint is saved: how many best ones are wanted, and a value worse than any."""


def _save_all(
    original: Callable, cfg: Any, trainer: Any, epoch_itr: Any, val_loss: float | None
) -> str | None:
    suffix = trainer.checkpoint_suffix
    worst = "_-inf" if cfg.maximize_best_checkpoint_metric else "_inf"
    _BEST.update(count=cfg.keep_best_checkpoints, worst=worst + suffix)
    try:
        saved = original(cfg, trainer, epoch_itr, val_loss)
    finally:
        _BEST.clear()
    updates, every = trainer.get_num_updates(), cfg.save_interval_updates
    meets = every > 0 and updates % every == 0 and epoch_itr.end_of_epoch()
    if not (saved and meets) or cfg.write_checkpoints_asynchronously:
        return saved
    name = f"checkpoint_{epoch_itr.epoch}_{updates}{suffix}.pt"
    PathManager.copy(saved, os.path.join(cfg.save_dir, name), overwrite=True)
    if cfg.keep_interval_updates > 0:
        _remove_old_intervals(cfg, suffix)
    return saved


def _remove_old_intervals(cfg: Any, suffix: str) -> None:
    """Remove the checkpoints beyond --keep-interval-updates, as fairseq does within an epoch."""
    pattern = rf"checkpoint_\d+_(\d+){re.escape(suffix)}\.pt"
    kept_forever = cfg.keep_interval_updates_pattern  # multiples of it; -1: none
    found = [
        path
        for path, update in checkpoint_utils.checkpoint_paths(
            cfg.save_dir, pattern=pattern, keep_match=True
        )
        if kept_forever == -1 or update % kept_forever != 0
    ]
    for path in found[cfg.keep_interval_updates :]:
        PathManager.rm(path)


@contextmanager
def _removed_on_failure(path: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(path)
        raise


def _sync(path: str) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
