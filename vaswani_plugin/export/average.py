"""The average of checkpoints (section 6.1): the mean of each weight. It needs PyTorch only.

Checkpoints are read one at a time and accumulated in float64; the mean is cast to the type of the
files. A tensor that two names share is averaged once and stays shared.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from vaswani_plugin.export.exported_model import require_finite
from vaswani_plugin.inference.checkpoints import Checkpoint, load_checkpoint
from vaswani_plugin.inference.safetensors_file import Weights, model_config, shared_owners
from vaswani_plugin.inference.untrusted import untrusted

_ABSENT = "(absent)"


class Averager:
    """Sums the weights of one checkpoint after another."""

    def __init__(self) -> None:
        self.count = 0
        self._first_name = ""
        self._config: dict[str, Any] = {}
        self._sums: Weights = {}
        self._dtypes: dict[str, torch.dtype] = {}
        self._owners: dict[str, str] = {}

    def add(self, name: str, weights: Weights, config: dict[str, Any]) -> None:
        """Add one checkpoint.

        Args:
            name: its name in error messages.
            weights: maps names to tensors of any shape.
            config: the model's configuration.

        Raises:
            ValueError: it doesn't match the first one; names the checkpoint and the key.
        """
        if self.count == 0:
            self._first_name, self._config = name, config
            self._owners = shared_owners(weights)
            self._dtypes = {key: tensor.dtype for key, tensor in weights.items()}
            self._sums = {key: _wide(weights[key]) for key in set(self._owners.values())}
        else:
            self._check(name, weights, config)
            for key, total in self._sums.items():
                if total.is_floating_point():
                    total += weights[key]
        self.count += 1

    def mean(self) -> Weights:
        """The mean of each weight in its stored type, in the order of the first checkpoint."""
        if self.count == 0:
            raise ValueError("there is nothing to average: give at least one checkpoint")
        means = {
            key: (total / self.count if total.is_floating_point() else total).to(self._dtypes[key])
            for key, total in self._sums.items()
        }
        return {key: means[owner] for key, owner in self._owners.items()}

    def _check(self, name: str, weights: Weights, config: dict[str, Any]) -> None:
        first = self._first_name
        for key in sorted(config.keys() | self._config.keys()):
            ours, theirs = self._config.get(key, _ABSENT), config.get(key, _ABSENT)
            if ours != theirs:
                raise ValueError(
                    f"{name}: another model than {first}: {key} is {theirs!r} here and {ours!r} "
                    "there; average checkpoints of one model only"
                )
        for key in sorted(weights.keys() ^ self._dtypes.keys()):
            verb = "has" if key in weights else "lacks"
            raise ValueError(f"{name}: {verb} the weight {key}, unlike {first}")
        owners = shared_owners(weights)
        for key, owner in self._owners.items():
            self._check_weight(name, key, weights[key], owner)
            if owners[key] != owner:
                raise ValueError(f"{name}: {key} shares its storage differently in {first}")

    def _check_weight(self, name: str, key: str, tensor: torch.Tensor, owner: str) -> None:
        total, first = self._sums[owner], self._first_name
        if tensor.shape != total.shape:
            shapes = f"{tuple(tensor.shape)} here and {tuple(total.shape)} in {first}"
            raise ValueError(f"{name}: the shape of {key} is {shapes}")
        if tensor.dtype != self._dtypes[key]:
            dtypes = f"{tensor.dtype} here and {self._dtypes[key]} in {first}"
            raise ValueError(f"{name}: the type of {key} is {dtypes}")
        if not total.is_floating_point() and not torch.equal(tensor, total):
            raise ValueError(f"{name}: {key} holds other integers than in {first}")


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64, copy=True) if tensor.is_floating_point() else tensor.clone()


def average_checkpoints(paths: Iterable[Path]) -> Checkpoint:
    """Average fairseq checkpoints (section 6.1) into a checkpoint that fairseq loads.

    Args:
        paths: files, the newest last; an iterable, so that a caller can show progress. Only one
            file is in memory at a time, beside the sums.

    Returns:
        The newest checkpoint with the averaged weights; "extra_state" lists the names of the files.
        It has no optimizer state and no moving average: these belong to other weights.

    Raises:
        OSError: a file can't be read.
        ValueError: no files, a bad file, a weight with NaN or infinity, or files that don't match;
            names file and key.
    """
    averager, names, newest = Averager(), [], None
    for path in paths:
        newest = load_checkpoint(path)
        with untrusted(path):
            require_finite(newest["model"])
            averager.add(str(path), newest.pop("model"), model_config(newest))
        newest["last_optimizer_state"] = None
        names.append(path.name)
    model = averager.mean()
    extra = dict(newest.get("extra_state") or {})
    for key in ("ema", "ema_fp32_params"):
        extra.pop(key, None)
    return {**newest, "model": model, "extra_state": {**extra, "averaged": names}}
