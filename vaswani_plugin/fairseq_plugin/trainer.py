"""fairseq's trainer, extended to survive signals, damaged files and bad updates.

Each method calls fairseq's and adds one service.
"""

import logging
import math
import os
import sys
from pathlib import Path
from typing import Any

import torch
from fairseq.data.iterators import EpochBatchIterating
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin import preemption, save_folder
from vaswani_plugin.fairseq_plugin.defaults import PAPER_VALUES, report
from vaswani_plugin.fairseq_plugin.patches.distribution import is_under_torchrun
from vaswani_plugin.inference.checkpoints import mismatches_explained
from vaswani_plugin.model.configuration import check_ranges

logger = logging.getLogger(__name__)

AUTOMATIC = "checkpoint_last.pt"
"""fairseq's default of --restore-file: resume if there is a checkpoint."""
DEFAULT_LIMIT = 10
"""Of updates in a row without finite gradients, for optimizers without the flag."""


class NonfiniteNorm(Exception):
    """Ends fairseq's step before the optimizer's step; the trainer catches it."""


def refuse_nonfinite(norm: Tensor) -> Tensor:
    """Return the norm of all gradients unchanged, unless it is NaN or infinite."""
    if not torch.isfinite(norm).all():
        raise NonfiniteNorm
    return norm


def first_nonfinite(model: torch.nn.Module) -> str:
    """Describe the first parameter whose gradient is not finite."""
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
            kind = "NaN" if torch.isnan(parameter.grad).any() else "infinite"
            return f"the gradient of {name} is {kind}"
    return "the gradient's norm is infinite, its numbers are not"


class VaswaniTrainer(Trainer):
    """Resumes, exits on a signal, skips updates that are not finite, and keeps a good save."""

    def __init__(self, cfg: Any, *args: Any) -> None:
        preemption.listen()
        if cfg.common.bf16 and cfg.common.amp:  # bfloat16 weights without float32 copies
            raise UserError("--bf16 with --amp: small updates would be lost; give one of the two")
        workers = int(os.environ["WORLD_SIZE"]) if is_under_torchrun() else 1
        if workers > cfg.distributed_training.distributed_world_size:
            raise UserError(
                "torchrun started several workers, and each would train alone: a Hydra"
                " configuration needs hydra.callbacks, as recipes/config/training.yaml has it"
            )
        for settings in (cfg.optimizer, cfg.lr_scheduler, cfg.task):
            if str(getattr(settings, "_name", None)).startswith("vaswani"):
                check_ranges(settings)
        super().__init__(cfg, *args)
        self.preemption = preemption.REQUEST
        self.began_with_named = False  # whether --restore-file has been used before
        self.nonfinite = self.nonfinite_in_a_row = 0
        if getattr(cfg.lr_scheduler, "_name", None) == PAPER_VALUES["lr_scheduler"]:
            logger.info(report(self.cfg))

    # --- the start ---

    def load_checkpoint(
        self,
        filename: str,
        reset_optimizer: bool = False,
        reset_lr_scheduler: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> dict[str, Any] | None:
        """Lock the folder and load; see fairseq's method.

        With fairseq's default --restore-file, the newest good checkpoint replaces a `filename`
        that is damaged or missing. Without an optimizer's state the update number is that of the
        checkpoint; fairseq would begin with 0. A training that has done all its updates ends after
        loading; fairseq would do one more.

        Raises:
            UserError: the folder is in use, no checkpoint can be used, or it has another schedule.
        """
        options, given = self.cfg.checkpoint, Path(filename)
        # fairseq's broadcast pickles classes that torch.load refuses, upstream #5610
        options.load_checkpoint_on_all_dp_ranks = True
        preemption.listen(is_training=True)
        if self.is_data_parallel_master and not options.no_save:
            save_folder.hold(Path(options.save_dir))
            for leftover in Path(options.save_dir).glob("checkpoint*.pt.tmp"):
                leftover.unlink()
        last = Path(options.save_dir, f"checkpoint_last{self.checkpoint_suffix}.pt")
        is_named = given != last or options.restore_file != AUTOMATIC
        is_named &= not self.began_with_named
        if is_named and not PathManager.isfile(filename):
            raise UserError(  # fairseq would begin with random weights
                f"checkpoint {filename}: there is no such file; give its path from here, or leave"
                " the flag out"
            )
        # with --no-last-checkpoints a start begins anew
        chosen = given if is_named or options.no_last_checkpoints else self._choose(last)
        is_seen = PathManager.isfile(str(chosen))
        if preemption.highest(self, is_seen) and preemption.highest(self, not is_seen):
            raise UserError(  # they would wait for each other for ever
                f"checkpoint {chosen}: only some workers see it; give all nodes the same"
                " --save-dir, in a folder that they share"
            )
        resets = (reset_optimizer, reset_lr_scheduler)
        state = save_folder.contents(chosen) if is_seen and not reset_optimizer else {}
        before = save_folder.option(state, "lr_scheduler", "_name")
        now = getattr(self.cfg.lr_scheduler, "_name", None)
        if before not in (None, now) and not reset_lr_scheduler:
            raise UserError(
                f"checkpoint {chosen} was trained with --lr-scheduler {before}, not {now}, and the"
                " rate would jump: give the same one, or --reset-lr-scheduler"
            )
        with mismatches_explained(str(chosen)):
            loaded = super().load_checkpoint(str(chosen), *resets, *args, **kwargs)
        if updates := save_folder.updates_of(state) if not self.get_num_updates() else 0:
            if not reset_lr_scheduler:
                self.lr_scheduler.load_state_dict(
                    state["optimizer_history"][-1]["lr_scheduler_state"]
                )
            self.set_num_updates(updates)
            logger.warning(
                "checkpoint %s has no state of an optimizer: Adam begins anew, the rate goes on at"
                " update %d (--reset-optimizer begins it anew, too)",
                *(chosen, updates),
            )
        if chosen != given:
            logger.warning("resuming from %s, update %d", chosen, self.get_num_updates())
        updates, wanted = self.get_num_updates(), self.cfg.optimization.max_update
        if 0 < wanted <= updates:
            logger.info("the training was complete: %d of %d updates", updates, wanted)
            self.cfg.optimization.stop_min_lr = math.inf  # fairseq's only exit before an update
        return loaded

    def _choose(self, last: Path) -> Path:
        """The checkpoint that the first worker chose, in this worker's own folder."""
        name = save_folder.choose(last).name if self.is_data_parallel_master else None
        if self.data_parallel_world_size > 1:
            group, device = self.data_parallel_process_group, self.device
            name = distributed_utils.broadcast_object(name, 0, group, device)
        return last.with_name(name)

    # --- the steps ---

    def get_train_iterator(self, *args: Any, **kwargs: Any) -> EpochBatchIterating:
        """fairseq's iterator over an epoch; its position is saved when a signal arrives."""
        self.preemption.batches = super().get_train_iterator(*args, **kwargs)
        return self.preemption.batches

    def train_step(self, samples: list, raise_oom: bool = False) -> dict[str, Any] | None:
        """One update; see fairseq's method. None if it was skipped.

        That is if its gradient was not finite, or if a batch did not fit into the memory of the
        only worker; one of several always raises, as the others wait for its gradients.

        Raises:
            SystemExit: after the save that a signal requested.
            UserError: too many updates were skipped in a row.
        """
        self.preemption.exit_if_saved(self)
        try:
            logged = super().train_step(samples, raise_oom or self.data_parallel_world_size > 1)
            self.nonfinite_in_a_row = 0
        except NonfiniteNorm:
            self._skip_update()
            logged = None
        self.preemption.save_if_requested(self)
        return logged

    def clip_grad_norm(self, clip_norm: float) -> Tensor:
        """fairseq's method; a norm that is not finite ends the step, not the training.

        --fp16, and --amp on a GPU, keep fairseq's behaviour: they find the loss scale by overflows.

        Raises:
            NonfiniteNorm: before the gradients are scaled, which would spread a NaN to all of them.
        """
        common = self.cfg.common
        if common.fp16 or (common.amp and self.cuda):
            return super().clip_grad_norm(clip_norm)
        return self.optimizer.clip_grad_norm(clip_norm, aggregate_norm_fn=refuse_nonfinite)

    def _skip_update(self) -> None:
        """Log a skipped update, and discard its gradients."""
        self.nonfinite += 1
        self.nonfinite_in_a_row += 1
        limit = getattr(self.cfg.optimizer, "max_nonfinite_updates", DEFAULT_LIMIT)
        what = f"update {self.get_num_updates() + 1}: {first_nonfinite(self.get_model())}"
        if self.nonfinite_in_a_row >= limit:
            raise UserError(
                f"{what}; {limit} tries in a row had no finite gradient, so training stops: lower"
                " --lr-factor, raise --warmup-updates, look at the data (the limit is"
                f" --max-nonfinite-updates {limit})"
            )
        in_a_row = self.nonfinite_in_a_row
        logger.warning("%s; skipped (%d in a row of at most %d)", what, in_a_row, limit)
        with metrics.aggregate("train"):
            metrics.log_scalar("nonfinite", self.nonfinite, weight=0, priority=450)
        self.zero_grad()
        if hasattr(self.optimizer, "_multiply_factor"):
            # fairseq's --bf16 resets it only in a finished step; it would scale the next one, too.
            self.optimizer._multiply_factor = 1.0

    def valid_step(self, sample: Any, raise_oom: bool = False) -> dict[str, Any]:
        """Compute the loss of one validation batch; see fairseq's method."""
        logged = super().valid_step(sample, raise_oom)
        if not raise_oom:  # True: fairseq's own second try, inside this method's first call
            self.preemption.save_if_requested(self)
        return logged

    def save_checkpoint(self, filename: str, extra_state: dict[str, Any]) -> str | None:
        """Write a save's first file, which fairseq then copies.

        Raises:
            UserError: when the disk is full or can't be written to.
        """
        try:
            return super().save_checkpoint(filename, extra_state)
        except (OSError, RuntimeError) as error:  # PyTorch's own hides the system's
            raise UserError(
                f"the checkpoint of update {self.get_num_updates()} can't be saved to"
                f" {Path(filename).parent} ({error.__context__ or error}): the training ends here,"
                " earlier checkpoints are unharmed; make room, and the same command resumes"
            ) from error


def install() -> None:
    """Make fairseq's training commands use `VaswaniTrainer`. Calling it again changes nothing.

    The name is replaced in `fairseq.trainer`, from which the commands import it, and in a command
    that is imported already (``__main__`` if it was started by ``python -m``).
    """
    for name in ("fairseq.trainer", "fairseq_cli.train", "__main__"):
        module = sys.modules.get(name)
        if getattr(module, "Trainer", None) is Trainer:
            module.Trainer = VaswaniTrainer
    preemption.listen()  # the process that starts the workers never makes a trainer
