"""Updates that can't be made: gradients that are no numbers, batches that don't fit into memory."""

import logging
from typing import Any

import torch
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from torch import Tensor

from vaswani_plugin.compat.replacing import replace

logger = logging.getLogger(__name__)

DEFAULT_LIMIT = 10
LIMIT_FLAG = "max_nonfinite_updates"


class NonfiniteGradients(ValueError):
    """Too many updates in a row had NaN or infinite gradients."""


class OutOfMemory(ValueError):
    """A batch doesn't fit into the memory of one of several workers."""


class _Nonfinite(Exception):
    """Leaves fairseq's step before the optimizer's; caught by our own."""


def skip_nonfinite_gradients() -> None:
    """Skip an update whose gradient is NaN or infinite, count it, stop after some in a row.

    fairseq ends the training at the first one. --fp16 and --amp keep fairseq's own ways: there an
    overflow is how the loss scale is found.
    """
    clip, step = Trainer.clip_grad_norm, Trainer.train_step

    def clip_grad_norm(self: Trainer, clip_norm: float) -> Tensor:
        if not _norm_is_shared(self):
            return clip(self, clip_norm)

        def refuse_nonfinite(norm: Tensor) -> Tensor:
            if not torch.isfinite(norm).all():
                raise _Nonfinite
            return norm

        # before the norm scales the gradients: a NaN would spread to all of them
        return self.optimizer.clip_grad_norm(clip_norm, aggregate_norm_fn=refuse_nonfinite)

    def train_step(self: Trainer, samples: Any, raise_oom: bool = False) -> Any:
        try:
            logged = step(self, samples, raise_oom)
        except _Nonfinite:
            _count(self)
            _forget_gradients(self)
            return None
        self.vaswani_nonfinite_in_a_row = 0
        return logged

    replace(Trainer, "clip_grad_norm", clip_grad_norm)
    replace(Trainer, "train_step", train_step)


def _norm_is_shared(trainer: Trainer) -> bool:
    """Whether the gradients, and so the decision, are the same on all workers, and final."""
    cfg = trainer.cfg
    scaled = cfg.common.fp16 or cfg.common.amp
    apart = cfg.optimization.use_bmuf or cfg.distributed_training.ddp_backend == "slowmo"
    return not (scaled or apart or trainer.is_fsdp or trainer.tpu)


def _forget_gradients(trainer: Trainer) -> None:
    trainer.zero_grad()
    if hasattr(trainer.optimizer, "_multiply_factor"):
        # fairseq's --bf16 resets it only in a step that is taken: it would scale the next one too
        trainer.optimizer._multiply_factor = 1.0


def _count(trainer: Trainer) -> None:
    in_a_row = getattr(trainer, "vaswani_nonfinite_in_a_row", 0) + 1
    skipped = getattr(trainer, "vaswani_nonfinite", 0) + 1
    trainer.vaswani_nonfinite_in_a_row, trainer.vaswani_nonfinite = in_a_row, skipped
    limit = getattr(trainer.cfg.optimizer, LIMIT_FLAG, DEFAULT_LIMIT)  # another optimizer's: none
    what = f"update {trainer.get_num_updates() + 1}: {first_nonfinite(trainer.get_model())}"
    if in_a_row >= limit:
        raise NonfiniteGradients(
            f"{what}; {in_a_row} tries in a row had no finite gradient, so training stops: lower"
            " --lr-factor, raise --warmup-updates, look at the data (the limit is"
            f" --{LIMIT_FLAG.replace('_', '-')} {limit})"
        )
    logger.warning("%s; skipped (%d in a row of at most %d)", what, in_a_row, limit)
    with metrics.aggregate("train"):
        metrics.log_scalar("nonfinite", skipped, weight=0, priority=450)


def first_nonfinite(model: torch.nn.Module) -> str:
    """The first parameter whose gradient holds no numbers, in words."""
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
            kind = "NaN" if torch.isnan(parameter.grad).any() else "infinite"
            return f"the gradient of {name} is {kind}"
    return "the gradient's norm is infinite, its numbers are not"


def survive_full_memory() -> None:
    """Skip a batch that fits into no memory, on a CPU as fairseq does on a GPU.

    fairseq knows full memory by CUDA's words. One worker of several can't skip: the others wait for
    its gradients, so there it ends in one line rather than in other gradients or in a wait.
    """
    task_step, step = FairseqTask.train_step, Trainer.train_step

    def train_on_batch(self: FairseqTask, *args: Any, **kwargs: Any) -> Any:
        try:
            return task_step(self, *args, **kwargs)
        except (MemoryError, RuntimeError) as error:
            if not (isinstance(error, MemoryError) or "can't allocate memory" in str(error)):
                raise
            raise RuntimeError(f"out of memory: {error}") from error

    def train_step(self: Trainer, samples: Any, raise_oom: bool = False) -> Any:
        several = self.data_parallel_world_size > 1
        try:
            return step(self, samples, raise_oom or several)
        except RuntimeError as error:
            if not several or "out of memory" not in str(error):
                raise
            raise OutOfMemory(
                f"update {self.get_num_updates() + 1}: a batch doesn't fit into memory"
                f" ({' '.join(str(error).split())[:200]}); with several workers it can't be"
                " skipped: lower --max-tokens (and raise --update-freq), the same command goes on"
            ) from error

    replace(FairseqTask, "train_step", train_on_batch)
    replace(Trainer, "train_step", train_step)
