"""fairseq's trainer, extended to survive signals, damaged files and bad updates.

Each method calls fairseq's and adds one service. The state of a service is in a small object that
the trainer owns.
"""

import logging
import math
from pathlib import Path
from typing import Any

import torch
from fairseq.data.iterators import EpochBatchIterating
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.logging import metrics
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.trainer import Trainer
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.defaults import REGISTERED_DEFAULTS, report
from vaswani_plugin.fairseq_plugin.training import checkpoints, preemption
from vaswani_plugin.inference.models import mismatches_explained

logger = logging.getLogger(__name__)

PATIENCE = "patience"
"""Key of the state of early stopping in a checkpoint."""
USUAL_METRICS = ("loss", "nll_loss", "ppl")


FAIRSEQS_RATE = [0.25]
"""fairseq's default of --lr."""


def refuse_what_cannot_train(cfg: Any) -> None:
    """Refuse flags that can't train together or here; warn of an --lr without effect.

    Args:
        cfg: fairseq's whole configuration.

    Raises:
        UserError: names the flag and the remedy.
    """
    common = getattr(cfg, "common", None)
    on_cpu = getattr(common, "cpu", False) or not torch.cuda.is_available()
    if on_cpu and getattr(common, "fp16", False):
        raise UserError("--fp16 is for GPUs; on a CPU give --amp or --bf16, or leave it out")
    if getattr(common, "bf16", False) and getattr(common, "amp", False):
        raise UserError(
            "--bf16 and --amp: together they would train bfloat16 weights without float32 copies;"
            " leave out one of them"
        )
    optimizer = getattr(getattr(cfg, "optimizer", None), "_name", None)
    for flag in ("memory_efficient_bf16", "memory_efficient_fp16"):
        if getattr(common, flag, False) and optimizer != REGISTERED_DEFAULTS["optimizer"]:
            given = f"--{flag.replace('_', '-')}"
            raise UserError(
                f"{given}: --optimizer {optimizer} keeps no float32 copies of weights, and small"
                f" updates are lost; give --{flag[-4:]}, or --optimizer vaswani_adam"
            )
    schedule = getattr(getattr(cfg, "lr_scheduler", None), "_name", None)
    rates = list(getattr(getattr(cfg, "optimization", None), "lr", None) or [])
    if schedule == REGISTERED_DEFAULTS["lr_scheduler"] and rates not in ([], FAIRSEQS_RATE):
        logger.warning(
            "--lr %s has no effect: --lr-scheduler vaswani takes the rate from Eq. 3; scale it "
            "with --lr-factor, or choose another scheduler",
            ",".join(map(str, rates)),
        )


DEFAULT_LIMIT = 10
LIMIT_FLAG = "max_nonfinite_updates"


class NonfiniteGradients(UserError):
    """Too many updates in a row had NaN or infinite gradients."""


class NonfiniteNorm(Exception):
    """Ends fairseq's step before the optimizer's step; the trainer catches it."""


def refuse_nonfinite(norm: Tensor) -> Tensor:
    """Return the norm of all gradients unchanged.

    Raises:
        NonfiniteNorm: when it is NaN or infinite.
    """
    if not torch.isfinite(norm).all():
        raise NonfiniteNorm
    return norm


class NonfiniteUpdates:
    """Counts skipped updates."""

    def __init__(self) -> None:
        self.in_a_row = 0
        self.skipped = 0

    def skip(self, update: int, model: torch.nn.Module, optimizer_cfg: Any) -> None:
        """Count and log a skipped update.

        Args:
            update: its number, from 1.
            model: with the gradients.
            optimizer_cfg: gives the limit; for optimizers other than ours it is the default.

        Raises:
            NonfiniteGradients: at the limit.
        """
        self.in_a_row += 1
        self.skipped += 1
        limit = getattr(optimizer_cfg, LIMIT_FLAG, DEFAULT_LIMIT)
        what = f"update {update}: {first_nonfinite(model)}"
        if self.in_a_row >= limit:
            raise NonfiniteGradients(
                f"{what}; {self.in_a_row} tries in a row had no finite gradient, so training stops:"
                " lower --lr-factor, raise --warmup-updates, look at the data (the limit is"
                f" --{LIMIT_FLAG.replace('_', '-')} {limit})"
            )
        logger.warning("%s; skipped (%d in a row of at most %d)", what, self.in_a_row, limit)
        with metrics.aggregate("train"):
            metrics.log_scalar("nonfinite", self.skipped, weight=0, priority=450)


def first_nonfinite(model: torch.nn.Module) -> str:
    """Describe the first parameter whose gradient is not finite."""
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
            kind = "NaN" if torch.isnan(parameter.grad).any() else "infinite"
            return f"the gradient of {name} is {kind}"
    return "the gradient's norm is infinite, its numbers are not"


class OutOfMemory(UserError):
    """A batch doesn't fit into the memory of one of several workers."""


class VaswaniTrainer(Trainer):
    """Resumes, exits on a signal, skips updates that are not finite, and always keeps a good save.

    Args:
        cfg: fairseq's whole configuration; a service whose settings are missing is off.
        task: of fairseq or ours.
        model: the model.
        criterion: the loss.
        quantizer: fairseq's, or None.

    Raises:
        UserError: flags can't be done, or no checkpoint of a folder that has some is good.
    """

    def __init__(
        self, cfg: Any, task: Any, model: Any, criterion: Any, quantizer: Any = None
    ) -> None:
        preemption.listen()
        refuse_what_cannot_train(cfg)
        model.train()  # with --compile this looks for a compiler
        super().__init__(cfg, task, model, criterion, quantizer)
        self.preemption = preemption.REQUEST
        self.nonfinite = NonfiniteUpdates()
        self.saves = checkpoints.Saves()
        self.is_metric_checked = False
        last = self._automatic_checkpoint()
        if last is not None:
            checkpoints.ignore_flags_of_first_start(
                self.cfg.checkpoint, last, self.checkpoint_suffix
            )
        if self._setting("checkpoint.save_dir") is not None:
            checkpoints.require_named_files(self.cfg.checkpoint, last, self.checkpoint_suffix)
        if self._setting("lr_scheduler._name") == REGISTERED_DEFAULTS["lr_scheduler"]:
            logger.info(report(self.cfg))

    def _setting(self, path: str, default: Any = None) -> Any:
        """A value of the configuration; the default where it is missing or None."""
        value = self.cfg
        for name in path.split("."):
            value = getattr(value, name, None)
        return default if value is None else value

    # --- the start ---

    def load_checkpoint(
        self,
        filename: str,
        reset_optimizer: bool = False,
        *args: Any,
        reset_meters: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any] | None:
        """Lock the folder and load; see fairseq's method.

        With fairseq's default --restore-file, the newest good checkpoint replaces a `filename`
        that is damaged, missing, or older than an interrupted save. A training that has done all
        its updates, or was stopped early, ends after loading; fairseq would go on.

        Args:
            filename: the checkpoint that fairseq chose.
            reset_optimizer, reset_meters: begin with new ones.
            args, kwargs: fairseq's further arguments.

        Returns:
            The checkpoint's `extra_state`; None if nothing was loaded.

        Raises:
            UserError: the folder is in use, or no checkpoint can be used.
        """
        self._begin_run()
        last, kwargs["reset_meters"] = self._automatic_checkpoint(), reset_meters
        chosen = Path(filename)
        if last is not None and chosen == last:
            chosen = self._choose(last)
        extra_state = self._load(str(chosen), reset_optimizer, *args, **kwargs)
        if extra_state is not None and not (reset_optimizer or reset_meters):
            checkpoints.restore_patience(extra_state.get(PATIENCE, {}))
        end = self._reason_to_end()
        if last is not None and Path(filename) == last:
            self.saves.is_last_good = chosen == last
            if extra_state is not None and not self._setting("checkpoint.reset_optimizer"):
                checkpoints.log_lost_updates(chosen, last, self.get_num_updates())
            if chosen != last and end:
                self._restore_as_last(chosen, last)
        if end:
            logger.info("the training was complete: %s", end)
            self.cfg.optimization.stop_min_lr = math.inf  # fairseq's only exit before an update
        return extra_state

    def _begin_run(self) -> None:
        """Handle signals, lock the folder, remove files of interrupted saves."""
        preemption.listen(is_training=True)
        folder = self._setting("checkpoint.save_dir")
        if (
            folder is None
            or self._setting("checkpoint.no_save")
            or not self.is_data_parallel_master
        ):
            return
        checkpoints.hold(Path(folder))
        for leftover in Path(folder).glob("checkpoint*.pt.tmp"):
            leftover.unlink()

    def _automatic_checkpoint(self) -> Path | None:
        """The checkpoint that fairseq loads by default; None if the user named a file.

        Also None for sharded training, where each worker has its own file.
        """
        folder = self._setting("checkpoint.save_dir")
        is_named = self._setting("checkpoint.restore_file") != checkpoints.AUTOMATIC
        if folder is None or is_named or self.is_fsdp:
            return None
        if self._setting("checkpoint.no_last_checkpoints"):
            return None
        return Path(folder, f"checkpoint_last{self.checkpoint_suffix}.pt")

    def _choose(self, last: Path) -> Path:
        """The checkpoint that the first worker chose, in this worker's own folder."""
        is_first = self.is_data_parallel_master
        name = checkpoints.choose(last, self.checkpoint_suffix).name if is_first else None
        if self.data_parallel_world_size > 1:
            group, device = self.data_parallel_process_group, self.device
            name = distributed_utils.broadcast_object(name, 0, group, device)
        return last.with_name(name)

    def _load(self, filename: str, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        """Load as fairseq does; refuse a file that only some workers see: they would deadlock."""
        workers = self.data_parallel_world_size
        if workers > 1:
            seen = torch.tensor([float(PathManager.isfile(filename))], device=self.device)
            distributed_utils.all_reduce(seen, group=self.data_parallel_process_group)
            if 0 < seen.item() < workers:
                raise UserError(
                    f"checkpoint {filename}: only {seen.item():.0f} of {workers} workers see it;"
                    " give all nodes the same --save-dir, in a folder that they share"
                )
        with mismatches_explained(filename):
            return super().load_checkpoint(filename, *args, **kwargs)

    def _reason_to_end(self) -> str | None:
        """Why no update is left to do; None if there are more."""
        updates, wanted = self.get_num_updates(), self._setting("optimization.max_update", 0)
        if 0 < wanted <= updates:
            return f"{updates} of {wanted} updates"
        bad, borne = (
            checkpoints.patience().get("num_runs", 0),
            self._setting("checkpoint.patience", 0),
        )
        if 0 < borne <= bad:
            return f"{bad:.0f} validations without a better one; raise --patience {borne} to go on"
        hours = self._previous_training_time / 3600
        most = self._setting("optimization.stop_time_hours", 0)
        if 0 < most < hours:
            return f"{hours:.2f} hours of --stop-time-hours {most}"
        return None

    def _restore_as_last(self, chosen: Path, last: Path) -> None:
        """Copy `chosen` to checkpoint_last.pt: a complete training doesn't save again."""
        if self._setting("checkpoint.no_save") or not self.should_save_checkpoint_on_current_rank:
            return
        PathManager.copy(str(chosen), str(last), overwrite=True)  # whole, or not at all
        logger.warning("%s is put back: a copy of %s", last, chosen)

    # --- the steps ---

    def get_train_iterator(self, *args: Any, **kwargs: Any) -> EpochBatchIterating:
        """fairseq's iterator over an epoch; its position is saved when a signal arrives."""
        self.preemption.batches = super().get_train_iterator(*args, **kwargs)
        return self.preemption.batches

    def begin_epoch(self, epoch: int) -> None:
        """Check the metric of the best checkpoint; see fairseq's method."""
        super().begin_epoch(epoch)
        self._check_best_metric()

    def _check_best_metric(self) -> None:
        """Validate one batch to see whether --best-checkpoint-metric exists, once.

        fairseq would end in a KeyError after the first epoch.
        """
        metric = self._setting("checkpoint.best_checkpoint_metric", "loss")
        is_checked, self.is_metric_checked = self.is_metric_checked, True
        if is_checked or metric in USUAL_METRICS or self._setting("dataset.disable_validation"):
            return
        if metric == "bleu" and self._setting("task.eval_bleu"):  # absent if nothing is said
            return
        first = self._setting("dataset.valid_subset", "valid").split(",")[0]
        batches = self.get_valid_iterator(first).next_epoch_itr(
            shuffle=False, set_dataset_epoch=False
        )
        with torch.random.fork_rng(), metrics.aggregate(new_root=True) as found:
            super().valid_step(next(iter(batches)))
        known = {"num_updates", *found.get_smoothed_values()}
        if metric not in known:
            raise UserError(
                f"--best-checkpoint-metric {metric}: a validation gives {', '.join(sorted(known))};"
                " choose one of them (bleu needs --eval-bleu)"
            )

    def train_step(self, samples: list, raise_oom: bool = False) -> dict[str, Any] | None:
        """One update; see fairseq's method.

        Args:
            samples: the batches of this worker, one for each step of --update-freq.
            raise_oom: raise when memory runs out, instead of skipping the batch.

        Returns:
            The logged values; None if the update was skipped because its gradient was not finite,
            or because a batch did not fit into the memory of the only worker.

        Raises:
            SystemExit: after the save that a signal requested.
            NonfiniteGradients: too many updates were skipped in a row.
            OutOfMemory: a batch did not fit into the memory of one of several workers. It can't
                skip the batch, as the others wait for its gradients.
        """
        self.preemption.exit_if_saved(self)
        several = self.data_parallel_world_size > 1
        try:
            logged = super().train_step(samples, raise_oom or several)
            self.nonfinite.in_a_row = 0
        except NonfiniteNorm:
            update = self.get_num_updates() + 1
            self.nonfinite.skip(update, self.get_model(), self._setting("optimizer"))
            self._discard_gradients()
            logged = None
        except RuntimeError as error:
            if not several or "out of memory" not in str(error):
                raise
            raise self._out_of_memory(error) from error
        self.preemption.save_if_requested(self)
        return logged

    def clip_grad_norm(self, clip_norm: float) -> Tensor:
        """fairseq's method; a norm that is not finite ends the step, not the training.

        --fp16, and --amp on a GPU, keep fairseq's behaviour: they find the loss scale by overflows.
        Without a GPU, --amp has no loss scale, and fairseq would apply the update.

        Args:
            clip_norm: largest norm; 0 leaves the gradients as they are.

        Returns:
            The norm before scaling.

        Raises:
            NonfiniteNorm: before the gradients are scaled, which would spread a NaN to all of them.
        """
        scaled = self._setting("common.fp16") or (self._setting("common.amp") and self.cuda)
        apart = self._setting("optimization.use_bmuf") or (
            self._setting("distributed_training.ddp_backend") == "slowmo"
        )
        if scaled or apart or self.is_fsdp or self.tpu:
            return super().clip_grad_norm(clip_norm)
        return self.optimizer.clip_grad_norm(clip_norm, aggregate_norm_fn=refuse_nonfinite)

    def _discard_gradients(self) -> None:
        self.zero_grad()
        if hasattr(self.optimizer, "_multiply_factor"):
            # fairseq's --bf16 resets it only in a finished step; it would scale the next one, too.
            self.optimizer._multiply_factor = 1.0
        if isinstance(self.optimizer, AMPOptimizer) and self.optimizer.scaler.is_enabled():
            # With --cpu beside a GPU. PyTorch refuses to unscale the next gradients without it.
            self.optimizer.scaler.update()

    def _out_of_memory(self, error: RuntimeError) -> OutOfMemory:
        return OutOfMemory(
            f"update {self.get_num_updates() + 1}: a batch doesn't fit into memory"
            f" ({' '.join(str(error).split())[:200]}); with several workers it can't be skipped:"
            " lower --max-tokens (and raise --update-freq), and the same command resumes"
        )

    def valid_step(self, sample: Any, raise_oom: bool = False) -> dict[str, Any]:
        """Compute the loss of one validation batch; see fairseq's method."""
        logged = super().valid_step(sample, raise_oom)
        if not raise_oom:  # True: fairseq's own second try, inside this method's first call
            self.preemption.save_if_requested(self)
        return logged

    def save_checkpoint(self, filename: str, extra_state: dict[str, Any]) -> str | None:
        """Write a save's first file, which fairseq then copies; see fairseq's method.

        Args:
            filename: the file to write.
            extra_state: fairseq's; with `train_iterator` if a training can resume from the file.

        Returns:
            fairseq's result: the file's name, or None.

        Raises:
            SaveFailed: when the disk is full or can't be written to.
        """
        is_resumable = "train_iterator" in extra_state  # fairseq's crash.pt is not
        if not (is_resumable and self.should_save_checkpoint_on_current_rank):
            return super().save_checkpoint(filename, extra_state)
        folder, updates = Path(filename).parent, self.get_num_updates()
        notes = self.is_data_parallel_master
        extra_state = {**extra_state, PATIENCE: checkpoints.patience()}
        with self.saves.saving(folder, self.checkpoint_suffix, updates, notes):
            saved = super().save_checkpoint(filename, extra_state)
        self.saves.is_last_good = not self._setting("checkpoint.no_last_checkpoints")
        return saved
