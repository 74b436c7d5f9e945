"""Checkpoints: loaded with ``weights_only`` on, refused with a reason, saved atomically."""

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import checkpoint_utils, utils
from fairseq.file_io import PathManager

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.patches._patching import patch
from vaswani_plugin.inference.checkpoints import HARMLESS_GLOBALS, damage, why_unreadable


def allow_harmless_globals() -> None:
    """fairseq's own checkpoints no longer load.

    Since PyTorch 2.6 ``weights_only`` unpickles tensors and plain containers. It stays on, as a
    checkpoint may come from anyone; allowed are classes that hold data and run no code.

    Upstream: #5610.
    """
    torch.serialization.add_safe_globals(list(HARMLESS_GLOBALS))


def refuse_unusable_checkpoints() -> None:
    """A flipped bit changes a weight; what is no checkpoint fails without the file's name.

    PyTorch verifies no checksums. The refusal of a file that would run code names what it calls.

    Upstream: #5610.
    """

    @patch(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(original: Callable, path: str, *args, **kwargs) -> dict[str, Any]:
        if wrong := damage(path) if os.path.isfile(path) else None:
            raise UserError(
                f"checkpoint {path} cannot be read: it {wrong}; use another one of the same"
                " folder, or copy it again"
            )
        try:
            return original(path, *args, **kwargs)
        except (FileNotFoundError, PermissionError):
            raise
        except Exception as error:
            raise UserError(f"checkpoint {path} {why_unreadable(error)}") from error


def save_in_one_try() -> None:
    """After a disk that was full for a second, a checkpoint can't be read.

    fairseq tries again, appending to the failed file. Now the first failure ends the training.
    """

    @patch(checkpoint_utils, "_torch_persistent_save")
    def save(original: Callable, obj: Any, file: Any) -> None:
        torch.save(obj, file)


def copy_atomically() -> None:
    """A kill while checkpoint_last.pt is written leaves half a file.

    fairseq renames the first file of a save into place, but copies the others over the old ones.
    """

    @patch(PathManager, "copy")
    def copy(original: Callable, src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        copied = original(src_path, dst_path + ".tmp", overwrite=overwrite)
        os.replace(dst_path + ".tmp", dst_path)
        return copied


def save_shared_weights_once() -> None:
    """A checkpoint of a GPU, or of half precision, has the shared embedding matrix three times.

    fairseq copies each name's tensor to the CPU, or to float32, by itself.
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


def keep_the_checkpoints_that_were_asked_for() -> None:
    """With ``--save-interval-updates 7`` and epochs of 7 updates no interval's checkpoint is kept.

    At an epoch's end fairseq saves the epoch's only, even with ``--no-epoch-checkpoints``. And
    ``--keep-best-checkpoints 3`` keeps one if the first validation is the best: fairseq compares
    with the worst file that is kept, even if there are fewer than wanted.
    """

    best: dict[str, Any] = {}  # in a save: how many are wanted, and a value worse than any

    @patch(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(original: Callable, cfg, trainer, epoch_itr, val_loss) -> str | None:
        worst = "_-inf" if cfg.maximize_best_checkpoint_metric else "_inf"
        best.update(count=cfg.keep_best_checkpoints, worst=worst + trainer.checkpoint_suffix)
        interval, epoch, saved = cfg.save_interval_updates, epoch_itr.epoch, None
        meets = interval > 0 and trainer.get_num_updates() % interval == 0
        meets = meets and epoch_itr.end_of_epoch()
        try:
            if meets:  # as fairseq saves it within an epoch
                within = {"end_of_epoch": lambda: False, "state_dict": epoch_itr.state_dict}
                saved = original(cfg, trainer, SimpleNamespace(epoch=epoch, **within), val_loss)
            if not meets or not (cfg.no_epoch_checkpoints or epoch % cfg.save_interval):
                saved = original(cfg, trainer, epoch_itr, val_loss)
            return saved
        finally:
            best.clear()

    @patch(checkpoint_utils, "checkpoint_paths")
    def checkpoint_paths(original: Callable, path, pattern=r"checkpoint(\d+)\.pt", **keep) -> list:
        paths = original(path, pattern, **keep)
        if len(paths) < best.get("count", 0) and pattern.startswith(r"checkpoint\.best_"):
            return [f"{best['worst']}.pt"]  # fairseq reads the value off the name
        return paths
