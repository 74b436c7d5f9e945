"""Names that numpy 2 removed, and training in half precision."""

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from fairseq.data import data_utils, language_pair_dataset, token_block_dataset
from fairseq.optim.fp16_optimizer import FP16Optimizer

from vaswani_plugin.fairseq_plugin.patches._patching import is_affected_version, patch


def restore_removed_numpy_names() -> None:
    """``--sample-break-mode eos`` and ``--num-batch-buckets`` fail with an AttributeError.

    They use ``np.compat.long`` and ``np.percentile(interpolation=)``, which numpy 2 removed. The
    patch changes the name ``np`` in three modules of fairseq; numpy itself is not changed.
    (``np.int`` in masks for audio is not patched: the lines before it call a ``randint`` that
    numpy's generators never had.)

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1, with numpy 2.
    """
    if hasattr(np, "compat"):
        return
    for module in (data_utils, language_pair_dataset, token_block_dataset):
        if module.np is np:
            module.np = _numpy_with_old_names()


def _numpy_with_old_names() -> types.ModuleType:
    """A module with numpy's names and the removed names."""
    old = types.ModuleType("numpy")
    old.__dict__.update(vars(np))
    old.__getattr__ = lambda name: getattr(np, name)
    old.compat = types.SimpleNamespace(long=int)

    def percentile(*args: Any, interpolation: str | None = None, **kwargs: Any) -> Any:
        if interpolation is not None:
            kwargs["method"] = interpolation
        return np.percentile(*args, **kwargs)

    old.percentile = percentile
    return old


MASTERS = "fp32_params"
"""Key of the float32 weights in an optimizer's saved state: a list of tensors."""


def save_float32_weights_of_half_precision() -> None:
    """With ``--bf16`` or ``--fp16``, a resumed run differs from an uninterrupted one.

    The optimizer updates float32 copies of the weights. fairseq saves the rounded weights only, and
    makes the copies of a resumed run from these. Now the copies are saved with the optimizer's
    state, which makes a checkpoint larger by a third. They are loaded if they round to the weights
    of the loaded model: not into an average of checkpoints, for example.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if not is_affected_version():
        return

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
