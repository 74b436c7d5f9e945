"""Mixed and half precision: the loss scale of --amp, the float32 weights of --bf16 and --fp16."""

from collections.abc import Callable
from typing import Any

import torch
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer
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


MASTERS = "fp32_params"
"""Key of the float32 weights in an optimizer's saved state: a list of tensors."""


def save_float32_weights_of_half_precision() -> None:
    """With ``--bf16`` or ``--fp16``, a resumed run differs from an uninterrupted one.

    The optimizer updates float32 copies of the weights. fairseq saves the rounded weights only, and
    makes the copies of a resumed run from these. Now the copies are saved with the optimizer's
    state, which makes a checkpoint larger by a third. They are loaded if they round to the weights
    of the loaded model: not into an average of checkpoints, for example.
    """

    @patch(FP16Optimizer, "state_dict")
    def state_dict(original: Callable, self: FP16Optimizer) -> dict[str, Any]:
        return {**original(self), MASTERS: [master.detach() for master in _masters(self)]}

    @patch(FP16Optimizer, "load_state_dict")
    def load_state_dict(
        original: Callable,
        self: FP16Optimizer,
        state_dict: dict[str, Any],
        optimizer_overrides: dict[str, Any] | None = None,
    ) -> None:
        own = {key: value for key, value in state_dict.items() if key != MASTERS}
        original(self, own, optimizer_overrides)
        now, saved = _masters(self), state_dict.get(MASTERS, [])
        half = self.fp16_params[0].dtype
        fits = len(now) == len(saved) and all(
            torch.equal(master.to(half), found.to(master.device, half))
            for master, found in zip(now, saved, strict=True)
        )
        if fits:
            for master, found in zip(now, saved, strict=True):
                master.data.copy_(found)


def _masters(optimizer: FP16Optimizer) -> list[torch.Tensor]:
    """The float32 weights: one tensor a parameter or, flattened by --fp16, one a device."""
    masters = optimizer.fp32_params
    return list(masters.values()) if isinstance(masters, dict) else list(masters)
