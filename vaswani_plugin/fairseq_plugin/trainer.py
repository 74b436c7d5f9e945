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
from vaswani_plugin.fairseq_plugin.configurations import check_settings
from vaswani_plugin.fairseq_plugin.defaults import PAPER_VALUES, report
from vaswani_plugin.fairseq_plugin.patches.distribution import is_under_torchrun
from vaswani_plugin.inference.checkpoints import LANGUAGES, mismatches_explained, updates_of
from vaswani_plugin.model.configuration import flag
from vaswani_plugin.model.families import family_of

logger = logging.getLogger(__name__)

LOW_IS_GOOD = ("loss", "nll_loss", "ppl")
# with the option by which a task or a criterion logs it
HIGH_IS_GOOD = {"bleu": "eval_bleu", "chrf": "eval_bleu", "accuracy": "report_accuracy"}


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
            is_nan = torch.isnan(parameter.grad).any()
            return f"the gradient of {name} is {'NaN' if is_nan else 'infinite'}"
    return "the gradient's norm is infinite, its numbers are not"


class VaswaniTrainer(Trainer):
    """Resumes, exits on a signal, skips updates that are not finite, and keeps a good save."""

    def __init__(self, cfg: Any, *args: Any) -> None:
        preemption.listen()
        if cfg.common.bf16 and cfg.common.amp:  # bfloat16 weights without float32 copies
            raise UserError("--bf16 with --amp: small updates would be lost; give one of the two")
        if cfg.common.fp16 and (cfg.common.cpu or not torch.cuda.is_available()):
            raise UserError("--fp16 needs a GPU: give --amp or --bf16")
        names = cfg.ema.store_ema and [*args[1].named_parameters(remove_duplicate=False)]
        if names and len(names) > len([*args[1].parameters()]):
            raise UserError("--store-ema moves shared weights once a name: use vaswani average")
        metric = cfg.checkpoint.best_checkpoint_metric
        is_high = cfg.checkpoint.maximize_best_checkpoint_metric
        if metric in (LOW_IS_GOOD if is_high else HIGH_IS_GOOD):
            way = f"{'drop' if is_high else 'add'} --maximize-best-checkpoint-metric"
            raise UserError(f"--best-checkpoint-metric {metric} would keep the worst: {way}")
        parts, needed = (cfg.task, cfg.criterion), HIGH_IS_GOOD.get(metric, "")
        is_off = any(getattr(part, needed, None) is False for part in parts)
        is_on = metric in LOW_IS_GOOD or any(getattr(part, needed, False) for part in parts)
        are_ours = all(str(getattr(part, "_name", None)).startswith("vaswani_") for part in parts)
        if is_off or (are_ours and not is_on):  # of others nothing is known
            advice = f"give {flag(needed)}" if is_off else "take loss, nll_loss or ppl"
            raise UserError(f"--best-checkpoint-metric {metric}: validation has none: {advice}")
        workers = int(os.environ["WORLD_SIZE"]) if is_under_torchrun() else 1
        if workers > cfg.distributed_training.distributed_world_size:
            raise SystemExit(  # Hydra would print the traceback of a UserError
                "error: each of torchrun's workers would train alone: a Hydra configuration needs"
                " hydra.callbacks, as in recipes/config/training.yaml"
            )
        for settings in (cfg.optimizer, cfg.lr_scheduler, cfg.task):
            if str(getattr(settings, "_name", None)).startswith("vaswani"):
                check_settings(settings)
        super().__init__(cfg, *args)
        if (family := vars(type(self._model)).get("family")) and not family_of(cfg.model._name):
            cfg.model._name = family.model  # later nobody may know a user's row of our class
        self.preemption = preemption.REQUEST
        self.nonfinite = self.nonfinite_in_a_row = 0
        if getattr(cfg.lr_scheduler, "_name", None) == PAPER_VALUES["lr_scheduler"]:
            logger.info(report(self.cfg))

    def load_checkpoint(
        self, filename: str, reset_optimizer=False, reset_lr_scheduler=False, *args, **kwargs
    ) -> dict[str, Any] | None:
        """Lock the folder and load; see fairseq's method.

        With fairseq's default --restore-file, the newest good checkpoint replaces a damaged or
        missing one. Without an optimizer's state the update number is the checkpoint's, not 0. A
        complete training ends after loading. A `UserError` if the folder is in use or has come
        further than `filename`, no checkpoint can be used, or its schedule or dictionaries differ.
        """
        options, file = self.cfg.checkpoint, Path(filename)
        # fairseq's broadcast pickles classes that torch.load refuses, upstream #5610
        options.load_checkpoint_on_all_dp_ranks = True
        preemption.listen(is_training=True)
        if self.is_data_parallel_master and not options.no_save:
            save_folder.hold(Path(options.save_dir))
            for leftover in Path(options.save_dir).glob("checkpoint*.pt.tmp"):
                leftover.unlink()
        last = Path(options.save_dir, f"checkpoint_last{self.checkpoint_suffix}.pt")
        is_named = file != last or options.restore_file != "checkpoint_last.pt"  # the default
        if is_named and not PathManager.isfile(filename):
            raise UserError(  # fairseq would begin with random weights
                f"checkpoint {file}: no such file; give its path from here, or drop the flag"
            )
        # with --no-last-checkpoints a start begins anew
        chosen = file if is_named or options.no_last_checkpoints else self._choose(last)
        is_seen = PathManager.isfile(str(chosen))
        if preemption.highest(self, is_seen) and preemption.highest(self, not is_seen):
            raise UserError(  # they would wait for each other for ever
                f"checkpoint {chosen}: only some workers see it; give all nodes the same"
                " --save-dir, in a folder that they share"
            )
        resets = (reset_optimizer, reset_lr_scheduler)
        state = save_folder.contents(chosen) if is_seen else {}
        task_state = state.get("task_state") or {}
        self.task.load_state_dict(task_state)  # ours refuse other dictionaries
        states = (task_state, self.task.state_dict())
        trained, wanted = ("-".join(each.get(LANGUAGES) or ()) for each in states)
        if trained not in ("", wanted) and not reset_optimizer:
            raise UserError(
                f"checkpoint {chosen} is of {trained}, this training of {wanted}: give another"
                " --save-dir, or start from it by --finetune-from-model"
            )
        state = {} if reset_optimizer else state
        further = (updates_of(save_folder.contents(last)) or 0) if file != last else 0
        if further > (updates_of(state) or 0) and not options.no_save:
            raise UserError(
                f"--restore-file {file}: this training would overwrite {last}, update {further};"
                " to go on from there drop the flag, and those that reset; else give another"
                " --save-dir"
            )
        schedule = (state.get("cfg") or {}).get("lr_scheduler")
        before = schedule.get("_name") if isinstance(schedule, dict) else None
        now = getattr(self.cfg.lr_scheduler, "_name", None)
        if before not in (None, now) and not reset_lr_scheduler:
            raise UserError(
                f"checkpoint {chosen} was trained with --lr-scheduler {before}, not {now}, and the"
                " rate would jump: give the same one, or --reset-lr-scheduler"
            )
        with mismatches_explained(str(chosen)):
            loaded = super().load_checkpoint(str(chosen), *resets, *args, **kwargs)
        if (updates := updates_of(state)) and not self.get_num_updates():
            if not reset_lr_scheduler:
                before = state["optimizer_history"][-1]["lr_scheduler_state"]
                self.lr_scheduler.load_state_dict(before)
            self.set_num_updates(updates)
            logger.warning(
                f"checkpoint {chosen} has no state of an optimizer: Adam begins anew, the rate goes"
                f" on at update {updates} (--reset-optimizer begins it anew, too)"
            )
        if chosen != file:
            logger.warning("resuming from %s, update %d", chosen, self.get_num_updates())
        updates, wanted = self.get_num_updates(), self.cfg.optimization.max_update
        if 0 < wanted <= updates:
            logger.info("the training was complete: %d of %d updates", updates, wanted)
            self.cfg.optimization.stop_min_lr = math.inf  # fairseq's only exit before an update
        return loaded

    def _choose(self, last: Path) -> Path:
        """The checkpoint that the first worker chose, in this worker's own folder."""
        name: Any = save_folder.choose(last).name if self.is_data_parallel_master else None
        if self.data_parallel_world_size > 1:
            group, device = self.data_parallel_process_group, self.device
            name = distributed_utils.broadcast_object(name, 0, group, device)
        return last.with_name(name)

    def get_train_iterator(self, *args: Any, **kwargs: Any) -> EpochBatchIterating:
        """fairseq's iterator over an epoch; its position is saved when a signal arrives."""
        self.preemption.batches = super().get_train_iterator(*args, **kwargs)
        return self.preemption.batches

    def train_step(self, samples: list, raise_oom: bool = False) -> dict[str, Any] | None:
        """One update; see fairseq's method. None if it was skipped.

        That is if its gradient was not finite, or a batch did not fit into the only worker's
        memory; one of several always raises, as the others wait for its gradients. SystemExit
        after the save that a signal requested; a `UserError` if too many in a row were skipped.
        """
        self.preemption.exit_if_saved(self)
        try:
            # off itself, but until it ends, --amp on a CPU casts each weight only once
            with torch.autocast("cpu", enabled=False):
                logged = super().train_step(samples, raise_oom or self.data_parallel_world_size > 1)
            self.nonfinite_in_a_row = 0
        except NonfiniteNorm:
            logged = None
            self._skip_update()
        self.preemption.save_if_requested(self)
        return logged

    def clip_grad_norm(self, clip_norm: float) -> Tensor:
        """fairseq's method; a norm that is not finite ends the step before it spreads a NaN."""
        common = self.cfg.common
        if common.fp16 or (common.amp and self.cuda):  # these find the loss scale by overflows
            return super().clip_grad_norm(clip_norm)
        return self.optimizer.clip_grad_norm(clip_norm, aggregate_norm_fn=refuse_nonfinite)

    def _skip_update(self) -> None:
        """Log a skipped update, and discard its gradients."""
        self.nonfinite += 1
        self.nonfinite_in_a_row += 1
        limit = getattr(self.cfg.optimizer, "max_nonfinite_updates", 10)  # others have no flag
        what = f"update {self.get_num_updates() + 1}: {first_nonfinite(self.get_model())}"
        if self.nonfinite_in_a_row >= limit:
            raise UserError(
                f"{what}; {limit} tries in a row had no finite gradient, so training stops: lower"
                " --lr-factor, raise --warmup-updates, look at the data (the limit is"
                f" --max-nonfinite-updates {limit})"
            )
        logger.warning(f"{what}; skipped ({self.nonfinite_in_a_row} in a row of at most {limit})")
        with metrics.aggregate("train"):
            metrics.log_scalar("nonfinite", self.nonfinite, weight=0, priority=450)
        self.zero_grad()
        if hasattr(self.optimizer, "_multiply_factor"):
            self.optimizer._multiply_factor = 1.0  # --bf16 resets it in finished steps only

    def valid_step(self, sample: Any, raise_oom: bool = False) -> dict[str, Any]:
        """Compute the loss of one validation batch; see fairseq's method."""
        logged = super().valid_step(sample, raise_oom)
        if not raise_oom:  # True: fairseq's own second try, inside this method's first call
            self.preemption.save_if_requested(self)
        return logged

    def save_checkpoint(self, filename: str, extra_state: dict[str, Any]) -> str | None:
        """Write a save's first file, which fairseq then copies; a `UserError` if it can't be."""
        try:
            return super().save_checkpoint(filename, extra_state)
        except (OSError, RuntimeError) as error:  # PyTorch's own hides the system's
            raise UserError(
                f"the checkpoint of update {self.get_num_updates()} can't be saved to"
                f" {Path(filename).parent} ({error.__context__ or error}); earlier ones are"
                " unharmed: make room, and the same command resumes"
            ) from error


def install() -> None:
    """Make fairseq's training commands use `VaswaniTrainer`, also those imported already."""
    for name in ("fairseq.trainer", "fairseq_cli.train", "__main__"):
        module: Any = sys.modules.get(name)
        if getattr(module, "Trainer", None) is Trainer:
            module.Trainer = VaswaniTrainer
    preemption.listen()  # the process that starts the workers never makes a trainer
