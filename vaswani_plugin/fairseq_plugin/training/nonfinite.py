"""Skips and counts updates with NaN or infinite gradients; too many in a row end the training."""

import logging
from typing import Any

import torch
from fairseq.logging import metrics
from torch import Tensor

from vaswani_plugin.errors import UserError

logger = logging.getLogger(__name__)

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
