"""Flags that are refused before a training starts."""

import logging
from typing import Any

import torch
from torch import nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.defaults import REGISTERED_DEFAULTS

logger = logging.getLogger(__name__)

FAIRSEQS_RATE = [0.25]
"""fairseq's default of --lr."""
WITH_ALIGNMENT = "label_smoothed_cross_entropy_with_alignment"


def refuse_what_cannot_train(cfg: Any, model: nn.Module) -> None:
    """Refuse flags that can't train together or here; warn of an --lr without effect.

    Args:
        cfg: fairseq's whole configuration.
        model: the model.

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
    criterion = getattr(getattr(cfg, "criterion", None), "_name", None)
    has_no_attention = getattr(getattr(model, "decoder", None), "attention", True) is None
    if criterion == WITH_ALIGNMENT and has_no_attention:
        raise UserError(
            f"--criterion {criterion}: the model has no attention to align; choose another"
            " criterion, or a model with attention"
        )
    schedule = getattr(getattr(cfg, "lr_scheduler", None), "_name", None)
    rates = list(getattr(getattr(cfg, "optimization", None), "lr", None) or [])
    if schedule == REGISTERED_DEFAULTS["lr_scheduler"] and rates not in ([], FAIRSEQS_RATE):
        logger.warning(
            "--lr %s has no effect: --lr-scheduler vaswani takes the rate from Eq. 3; scale it "
            "with --lr-factor, or choose another scheduler",
            ",".join(map(str, rates)),
        )
