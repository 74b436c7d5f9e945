"""The values of --log-mfu: padding, and the share of the machine's matrix rate that is used.

Axes: B sentences, S source positions, T target positions.
"""

import logging
import math
from dataclasses import fields
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import metrics
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.trainer import Trainer
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.figures.matrix_rate import matrix_rate
from vaswani_plugin.metrics.multiply_adds import Positions, Sizes, training_flops_of
from vaswani_plugin.metrics.sizes import sizes_of

logger = logging.getLogger(__name__)


class Metering:
    """Logs the cost of the updates of a training, as averages over the log interval.

    Args:
        sizes: of the model.
        pad: number of the padding symbol.
        peak: matrix rate of one device in FLOP/s; 0: measured at the first update.
    """

    def __init__(self, sizes: Sizes, pad: int, peak: float = 0.0) -> None:
        self.sizes, self.pad, self.peak = sizes, pad, peak

    @classmethod
    def of_task(cls, cfg: Any, task: Any) -> "Metering | None":
        """The metering that a task's flags ask for; None without --log-mfu.

        Args:
            cfg: fairseq's whole configuration.
            task: with the target dictionary.

        Raises:
            UserError: when --peak-flops is no rate, or the model's multiply-adds can't be counted.
        """
        own = getattr(cfg, "task", None)
        peak = getattr(own, "peak_flops", 0.0)
        if not (math.isfinite(peak) and peak >= 0):
            raise UserError(f"--peak-flops {peak}: must be FLOP/s, or 0 to measure them")
        if not getattr(own, "log_mfu", False):
            return None
        sizes = sizes_of(cfg.model, len(task.target_dictionary))
        if sizes is None:
            raise UserError(
                "--log-mfu counts the multiply-adds of our Transformers, language models and "
                "LSTMs, not of this architecture; leave it out"
            )
        return cls(sizes, task.target_dictionary.pad(), peak)

    def log(self, samples: list[dict[str, Any] | None], trainer: Trainer) -> None:
        """Log the cost of an update over all workers.

        Args:
            samples: this worker's batches of the update; empty ones don't count.
            trainer: gives the device and the process group of the workers.
        """
        batches = [batch_lengths(sample, self.pad) for sample in samples if sample]
        sums = (
            torch.stack(batches).sum(dim=0) if batches else torch.zeros(len(LENGTHS), device="cpu")
        )
        if trainer.data_parallel_world_size > 1:
            group = trainer.data_parallel_process_group
            sums = distributed_utils.all_reduce(sums.to(trainer.device), group=group)
        if not self.peak:
            self.peak = _measured_rate(trainer)
        self._log_sums(dict(zip(LENGTHS, sums.tolist(), strict=True)), trainer)

    def _log_sums(self, sums: dict[str, float], trainer: Trainer) -> None:
        batch = Positions(**{each.name: sums[each.name] for each in fields(Positions)})
        peak = self.peak * trainer.data_parallel_world_size
        with metrics.aggregate("train"):
            tera = training_flops_of(self.sizes, batch) / 1e12
            metrics.log_speed("tflops", tera, priority=91, round=6)
            metrics.log_derived(
                "mfu",
                lambda meters: round(100 * 1e12 * meters["tflops"].avg / peak, 2),
                priority=92,
            )
            for key, real in (("source", batch.source), ("target", batch.target)):
                if padded := sums[f"{key}_padded"]:
                    share = 100 * (1 - real / padded)
                    metrics.log_scalar(f"{key}_padding", share, padded, priority=93, round=1)


def _measured_rate(trainer: Trainer) -> float:
    weight = next(trainer.get_model().parameters())
    is_mixed = isinstance(trainer.optimizer, AMPOptimizer)
    dtype = torch.get_autocast_dtype(weight.device.type) if is_mixed else weight.dtype
    rate = matrix_rate(weight.device, dtype)
    name = str(dtype).removeprefix("torch.")
    logger.info("matrix rate of %s in %s: %.3f TFLOP/s", weight.device, name, rate / 1e12)
    return rate


LENGTHS = (*(each.name for each in fields(Positions)), "source_padded", "target_padded")


def batch_lengths(sample: dict[str, Any], pad: int) -> Tensor:
    """The lengths that determine a batch's cost, summed over sentences, without and with padding.

    Args:
        sample: fairseq's batch, of source (B, S) and target (B, T), or of text alone (B, T).
        pad: the number of the padding symbol.

    Returns:
        A float64 vector of the values that `LENGTHS` names: those of `Positions`, then the number
        of positions with padding. Vectors of several batches and workers may be added.
    """
    inputs = sample["net_input"]
    encoded = inputs["src_tokens"] if "prev_output_tokens" in inputs else None
    decoded = inputs["src_tokens"] if encoded is None else inputs["prev_output_tokens"]
    target = decoded.ne(pad).sum(dim=1)  # (B,)
    source = torch.zeros_like(target) if encoded is None else encoded.ne(pad).sum(dim=1)
    lengths = {
        "source": source.sum(),
        "target": target.sum(),
        "source_pairs": (source * source).sum(),
        "target_pairs": (target * target).sum(),
        "cross_pairs": (source * target).sum(),
        "predicted": sample["ntokens"],
        "source_padded": 0 if encoded is None else encoded.numel(),
        "target_padded": decoded.numel(),
    }
    values = [float(lengths[name]) for name in LENGTHS]
    return torch.tensor(values, dtype=torch.float64, device="cpu")
