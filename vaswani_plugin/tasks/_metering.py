"""What --log-mfu logs: padding, and how much of the machine's matrix rate training makes use of.

Axes: B sentences, S source positions, T target positions.
"""

import logging
import math
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from fairseq import utils
from fairseq.dataclass import FairseqDataclass
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import metrics
from fairseq.optim.amp_optimizer import AMPOptimizer
from torch import Tensor

from vaswani_plugin.metrics.multiply_adds import (
    Positions,
    Sizes,
    training_flops_of,
)
from vaswani_plugin.metrics.sizes import sizes_of
from vaswani_plugin.modules.matrix_rate import matrix_rate

logger = logging.getLogger(__name__)


@dataclass
class MeteringConfig(FairseqDataclass):
    """Flags of every task that meters its training."""

    log_mfu: bool = field(
        default=False,
        metadata={
            "help": "log tflops: 10^12 floating-point operations a second, counted as 2 for each "
            "multiply-add of every matrix product, attention included, forward and (twice) "
            "backward, over real tokens only: padding, recomputed activations, softmax, "
            "normalization and the optimizer don't count, what the causal mask hides does; mfu: "
            "percent of the machine's matrix rate; source_padding, target_padding: percent of the "
            "batches' positions. (wps, always logged, counts target tokens a second, without "
            "padding.)"
        },
    )
    peak_flops: float = field(
        default=0.0,
        metadata={
            "help": "matrix rate of one device in FLOP/s, of which mfu is the share; 0 measures: "
            "the best of a few large products in the training precision, once at the start"
        },
    )


class Metered:
    """Makes a fairseq task meter its training under --log-mfu; stands before fairseq's class.

    Raises:
        ValueError: at the start, when --peak-flops is no rate, or when the model is none whose
            multiply-adds can be counted.
    """

    _sizes: Sizes | None = None
    _peak: float | None = None

    @property
    def _metering(self) -> MeteringConfig:
        return self.cfg or self.args  # as the oldest of fairseq's tasks call it

    def build_model(self, cfg: Any, from_checkpoint: bool = False):
        """fairseq's `build_model`; notes what the model's cost depends on."""
        model = super().build_model(cfg, from_checkpoint)
        own = self._metering
        if not (math.isfinite(own.peak_flops) and own.peak_flops >= 0):
            raise ValueError(f"--peak-flops {own.peak_flops}: must be FLOP/s, or 0 to measure them")
        if own.log_mfu:
            self._sizes = sizes_of(cfg, len(self.target_dictionary))
            if self._sizes is None:
                raise ValueError(
                    "--log-mfu counts the multiply-adds of our Transformers, language models and "
                    "LSTMs, not of this architecture; leave it out"
                )
        return model

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        """fairseq's `train_step`, with the batch's lengths beside what the criterion logs."""
        if self._sizes is not None and self._peak is None:
            self._peak = self._metering.peak_flops or self._measured_peak(model, optimizer)
        loss, sample_size, logged = super().train_step(
            sample, model, criterion, optimizer, update_num, ignore_grad
        )
        if self._sizes is not None:
            logged = {**logged, **batch_lengths(sample, self.target_dictionary.pad())}
        return loss, sample_size, logged

    def _measured_peak(self, model, optimizer) -> float:
        weight = next(model.parameters())
        amp = isinstance(optimizer, AMPOptimizer) and weight.device.type == "cuda"
        dtype = torch.float16 if amp else weight.dtype
        peak = matrix_rate(weight.device, dtype)
        name = str(dtype).removeprefix("torch.")
        logger.info("matrix rate of %s in %s: %.3f TFLOP/s", weight.device, name, peak / 1e12)
        return peak

    def reduce_metrics(self, logging_outputs: list[dict[str, Any]], criterion) -> None:
        """fairseq's `reduce_metrics`; the metered figures are averages over the log interval."""
        super().reduce_metrics(logging_outputs, criterion)
        if self._peak is None or not any("predicted" in log for log in logging_outputs):
            return  # validation

        def total(key: str) -> float:
            return utils.item(sum(log[key] for log in logging_outputs))

        batch = Positions(**{each.name: total(each.name) for each in fields(Positions)})
        peak = self._peak * distributed_utils.get_data_parallel_world_size()
        tera = training_flops_of(self._sizes, batch) / 1e12
        metrics.log_speed("tflops", tera, priority=91, round=6)
        metrics.log_derived(
            "mfu", lambda meters: round(100 * 1e12 * meters["tflops"].avg / peak, 2), priority=92
        )
        for key, real in (("source", batch.source), ("target", batch.target)):
            if padded := total(f"{key}_padded"):
                share = 100 * (1 - real / padded)
                metrics.log_scalar(f"{key}_padding", share, padded, priority=93, round=1)


def batch_lengths(sample: dict[str, Any], pad: int) -> dict[str, Tensor | int]:
    """What decides on a batch's cost: sums over its sentences, without padding and with it.

    Args:
        sample: fairseq's batch, of source (B, S) and target (B, T), or of text alone (B, T).
        pad: the number of the padding symbol.

    Returns:
        Those of `Positions`, on the batch's device, and the positions that it fills.
        They may be added up over batches and workers.
    """
    inputs = sample["net_input"]
    encoded = inputs["src_tokens"] if "prev_output_tokens" in inputs else None
    decoded = inputs["src_tokens"] if encoded is None else inputs["prev_output_tokens"]
    target = decoded.ne(pad).sum(dim=1)  # (B,)
    source = torch.zeros_like(target) if encoded is None else encoded.ne(pad).sum(dim=1)
    return {
        "source": source.sum(),
        "target": target.sum(),
        "source_pairs": (source * source).sum(),
        "target_pairs": (target * target).sum(),
        "cross_pairs": (source * target).sum(),
        "predicted": sample["ntokens"],
        "source_padded": 0 if encoded is None else encoded.numel(),
        "target_padded": decoded.numel(),
    }
