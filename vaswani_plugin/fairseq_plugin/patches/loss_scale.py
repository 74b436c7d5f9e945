"""The loss scale of --amp."""

from collections.abc import Callable
from typing import Any

import torch
from fairseq.optim.amp_optimizer import AMPOptimizer
from omegaconf import DictConfig

from vaswani_plugin.fairseq_plugin.patches._patching import patch


def unscale_gradients_once() -> None:
    """With ``--amp`` on a GPU the updates shrink as the loss scale grows.

    fairseq lets the scaler unscale the gradients of PyTorch's optimizer, and step its own wrapper
    of it. The scaler takes these for two optimizers, and divides by the scale twice.
    """

    @patch(AMPOptimizer, "step")
    def step(original: Callable, self: AMPOptimizer) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()


def train_without_loss_scale_on_cpus() -> None:
    """``--cpu --amp`` beside a GPU scales the loss, and NaN gradients pass for an overflow.

    A CPU computes in bfloat16 there, which needs no scale.
    """

    @patch(AMPOptimizer, "__init__")
    def init(original: Callable, self: AMPOptimizer, cfg: DictConfig, *args: Any, **kwargs: Any):
        original(self, cfg, *args, **kwargs)
        if cfg.common.cpu:
            self._grad_scaler = torch.amp.GradScaler("cpu", enabled=False)
