"""Mixed and half precision: the loss scale of --amp, the float32 weights of --bf16 and --fp16."""

from collections.abc import Callable
from typing import Any

import torch
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer

from vaswani_plugin.fairseq_plugin.patches._patching import patch


def unscale_gradients_once() -> None:
    """With ``--amp`` on a GPU the updates shrink as the loss scale grows.

    The scaler takes PyTorch's optimizer and fairseq's wrapper for two, and divides twice.
    """

    @patch(AMPOptimizer, "step")
    def step(original: Callable, self: AMPOptimizer) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()


MASTERS = "fp32_params"  # the key of the float32 weights in an optimizer's saved state


def save_float32_weights_of_half_precision() -> None:
    """With ``--bf16`` or ``--fp16``, a resumed run continues from rounded weights.

    The optimizer updates float32 copies of the weights, which fairseq does not save. They are
    loaded only if they round to the model's weights: not into an average of checkpoints.
    """

    @patch(FP16Optimizer, "state_dict")
    def state_dict(original: Callable, self: FP16Optimizer) -> dict[str, Any]:
        return {**original(self), MASTERS: [master.detach() for master in _masters(self)]}

    @patch(FP16Optimizer, "load_state_dict")
    def load_state_dict(original: Callable, self: FP16Optimizer, state: dict, *args) -> None:
        saved = state.get(MASTERS, [])
        original(self, {name: part for name, part in state.items() if name != MASTERS}, *args)
        pairs = list(zip(_masters(self), saved, strict=False))
        half = self.fp16_params[0].dtype
        if all(torch.equal(now.to(half), old.to(now.device, half)) for now, old in pairs):
            for now, old in pairs:
                now.data.copy_(old)


def _masters(optimizer: FP16Optimizer) -> list[torch.Tensor]:
    """The float32 weights: one tensor a parameter or, flattened by --fp16, one a device."""
    masters = optimizer.fp32_params
    return list(masters.values()) if isinstance(masters, dict) else list(masters)
