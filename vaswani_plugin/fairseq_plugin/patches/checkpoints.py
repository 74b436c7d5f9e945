"""Checkpoints: loaded with ``weights_only`` on, refused with a reason, saved atomically."""

import contextlib
import errno
import os
import pickle
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from fairseq import checkpoint_utils, utils
from fairseq.file_io import PathManager

from vaswani_plugin.errors import CheckpointError, UserError
from vaswani_plugin.fairseq_plugin.patches._patching import patch
from vaswani_plugin.inference.checkpoints import HARMLESS_GLOBALS, damage
from vaswani_plugin.inference.models import mismatches_explained

_OTHER_COPY = "use another one of the same folder, or copy it again"


def allow_harmless_globals() -> None:
    """fairseq's own checkpoints no longer load.

    Since PyTorch 2.6, ``torch.load`` unpickles tensors and plain containers only
    (``weights_only``). This stays on, because a checkpoint may come from anyone. The patch allows
    only classes that hold data and run no code when they are built.

    Upstream: #5610.
    """
    torch.serialization.add_safe_globals(list(HARMLESS_GLOBALS))


def refuse_unusable_checkpoints() -> None:
    """A bad checkpoint fails with a long PyTorch message, without its name, or not at all.

    PyTorch does not verify the checksums that it wrote, so a flipped bit changes a weight. Now a
    file that would run code is refused, and the message names it and the function that it would
    call. For a foreign or damaged file the message names the remedy. All are ``CheckpointError``.

    Upstream: #5610.
    """

    @patch(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(
        original: Callable, path: str, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        if os.path.isdir(path):
            raise CheckpointError(f"{path} is a folder: name a checkpoint in it, such as model.pt")
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
    """Another dictionary or architecture than the checkpoint's fails with a list of all weights."""

    @patch(checkpoint_utils, "load_model_ensemble_and_task")
    def load_model_ensemble_and_task(
        original: Callable, filenames: list[str], *args: Any, **kwargs: Any
    ) -> Any:
        with mismatches_explained(", ".join(filenames)):
            return original(filenames, *args, **kwargs)


SAVE_TRIES = 3
SAVE_PAUSE = 2.5
"""Seconds before a failed save is tried again; the numbers are fairseq's."""


def save_atomically() -> None:
    """After a power cut, or a disk that was full for a second, a checkpoint can't be read.

    fairseq renames a checkpoint before it is on the disk, and appends a save that it tries again to
    the file of the failed try. A save that fails in all tries leaves its file on the full disk.
    """

    @patch(checkpoint_utils, "torch_persistent_save")
    def torch_persistent_save(
        original: Callable, obj: Any, filename: str, async_write: bool = False
    ) -> None:
        if async_write or not PathManager.supports_rename(filename):
            original(obj, filename, async_write=async_write)
            return
        for tries_left in reversed(range(SAVE_TRIES)):
            try:
                with _removed_on_failure(filename + ".tmp") as temporary:
                    with open(temporary, "wb") as file:
                        torch.save(obj, file)
                    _sync(temporary)
                    PathManager.rename(temporary, filename)
                return
            except Exception:
                if not tries_left:
                    raise
                time.sleep(SAVE_PAUSE)


def copy_atomically() -> None:
    """A kill while checkpoint_last.pt is written leaves half a file.

    fairseq renames the first file of a save into place, but copies the others, such as
    ``checkpoint_last.pt``, over the old ones. Now these are also written under another name first.
    A copy that fails ends in a one-line error.
    """

    @patch(PathManager, "copy")
    def copy(original: Callable, src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if not overwrite or not PathManager.supports_rename(dst_path):
            return original(src_path, dst_path, overwrite=overwrite)
        try:
            with _removed_on_failure(dst_path + ".tmp") as temporary:
                copied = original(src_path, temporary, overwrite=True)
                _sync(temporary)
                os.replace(temporary, dst_path)
        except OSError as error:
            raise UserError(
                f"{dst_path} can't be made a copy of {src_path} ({error.strerror or error}): make"
                " room, and the same command continues from the last save"
            ) from error
        return copied


@contextlib.contextmanager
def _removed_on_failure(path: str) -> Iterator[str]:
    try:
        yield path
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(path)
        raise


def _sync(path: str) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def save_shared_weights_once() -> None:
    """A checkpoint of a GPU, or of half precision, has the shared embedding matrix three times.

    fairseq copies each name's tensor to the CPU, or to float32, by itself. Now one tensor is copied
    once, and ``torch.save`` writes it once.
    """

    @patch(utils, "move_to_cpu")
    def move_to_cpu(original: Callable, sample: Any) -> Any:
        moved: dict[tuple, torch.Tensor] = {}

        def move(tensor: torch.Tensor) -> torch.Tensor:
            key = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
            if key not in moved or not tensor.numel():
                (moved[key],) = original([tensor])
            return moved[key]

        return utils.apply_to_sample(move, sample)


_BEST: dict[str, Any] = {}
"""While a checkpoint is saved: how many best ones are wanted, and a value worse than any."""


def save_every_checkpoint_asked_for() -> None:
    """No interval checkpoint is written at an epoch's end; ``--keep-best-checkpoints 3`` keeps one.

    With ``--save-interval-updates 5`` and epochs of 15 updates, ``checkpoint_1_15.pt`` is missing,
    and an average of the last checkpoints takes older ones. Of the best checkpoints fairseq keeps
    too few if the first validations are the best, as in fine-tuning: it compares with the worst
    file that is kept, even if there are fewer than wanted.
    """

    @patch(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(
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
        if saved and meets and not cfg.write_checkpoints_asynchronously:
            name = f"checkpoint_{epoch_itr.epoch}_{updates}{suffix}.pt"
            PathManager.copy(saved, os.path.join(cfg.save_dir, name), overwrite=True)
        return saved

    @patch(checkpoint_utils, "checkpoint_paths")
    def checkpoint_paths(
        original: Callable, path: str, pattern: str = r"checkpoint(\d+)\.pt", **more: Any
    ) -> list:
        found = original(path, pattern, **more)
        is_short = len(found) < _BEST.get("count", 0)
        if is_short and pattern.startswith(r"checkpoint\.best_"):
            return [f"{_BEST['worst']}.pt"]  # fairseq reads the value off the name
        return found
