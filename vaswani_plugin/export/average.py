"""The average of checkpoints (section 6.1): the mean of each weight. It needs PyTorch only.

Checkpoints are read one at a time and accumulated in float64; the mean is cast to the type of the
files. A tensor that two names share is averaged once and stays shared. `select` chooses the files
by the names that fairseq gives them.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from vaswani_plugin.export.exported_model import require_finite
from vaswani_plugin.inference.checkpoints import Checkpoint, load_checkpoint, untrusted
from vaswani_plugin.inference.safetensors_file import (
    Weights,
    model_config,
    shared_owners,
    updates_of,
)

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


EPOCH = r"checkpoint(\d+)"
UPDATE = r"checkpoint_\d+_(\d+)"
BEST = r"checkpoint\.best_(.+)_(\d+(?:\.\d+)?)"


def _match(pattern: str, path: Path, suffix: str) -> re.Match[str] | None:
    return re.fullmatch(rf"{pattern}{re.escape(suffix)}\.pt", path.name)


def find_files(inputs: list[Path]) -> list[Path]:
    """The files of `inputs`; a folder means all its ``*.pt`` files.

    Raises:
        ValueError: a name doesn't exist or is given twice.
    """
    files: list[Path] = []
    for item in inputs:
        if item.is_dir():
            files.extend(sorted(item.glob("*.pt")))
        elif item.exists():
            files.append(item)
        else:
            raise ValueError(f"--inputs {item}: there is no such file or folder")
    seen: set[tuple[int, int]] = set()
    for path in files:
        status = path.stat()
        if (status.st_dev, status.st_ino) in seen:
            raise ValueError(f"--inputs {path}: given twice, which would weigh it double")
        seen.add((status.st_dev, status.st_ino))
    return files


def _choose_numbered(
    files: list[Path], count: int, suffix: str, pattern: str, flag: str, names: str
) -> list[Path]:
    """The `count` files of the highest numbers, in ascending order.

    checkpoint_last.pt counts if it was saved after the last numbered one: --max-update may end a
    training inside an epoch.
    """
    found = sorted((int(match[1]), p) for p in files if (match := _match(pattern, p, suffix)))
    chosen = [path for _, path in found]
    for last in (path for path in files if path.name == f"checkpoint_last{suffix}.pt"):
        newest = _update_in(chosen[-1], suffix) if chosen else 0
        update = updates_of(load_checkpoint(last))
        if None not in (newest, update) and update > newest:
            chosen.append(last)
    if len(chosen) < count:
        raise ValueError(
            f"{flag} {count}: there are only {len(chosen)} checkpoints named {names}{suffix}.pt in "
            "--inputs, the final state counted; ask for fewer, or train on"
            + ("" if suffix else " (of a training with --checkpoint-suffix: give it here, too)")
        )
    return chosen[-count:]


def _update_in(path: Path, suffix: str) -> int | None:
    """The update after which a checkpoint was saved: in its name, else in the file."""
    named = _match(UPDATE, path, suffix)
    return int(named[1]) if named else updates_of(load_checkpoint(path))


def choose_best(files: list[Path], count: int, suffix: str = "") -> list[Path]:
    """The `count` best files by the value in their names, the best one last.

    The checkpoints' options say whether high values are good.

    Args:
        files: candidates.
        count: how many files.
        suffix: of the names, in front of ".pt".

    Raises:
        ValueError: there are fewer such files, or files of several metrics.
    """
    matches = {path: match for path in files if (match := _match(BEST, path, suffix))}
    metrics = sorted({match[1] for match in matches.values()})
    if len(metrics) > 1:
        raise ValueError(
            f"--best {count}: --inputs has the best by {' and by '.join(metrics)}; name the files"
        )
    if len(matches) < count:
        raise ValueError(
            f"--best {count}: there are only {len(matches)} checkpoints named "
            f"checkpoint.best_METRIC_VALUE{suffix}.pt in --inputs; ask for fewer, or train on"
        )
    values = sorted((float(match[2]), path) for path, match in matches.items())
    if not _high_is_good(values[0][1]):
        values.reverse()
    return [path for _, path in values[-count:]]


def _high_is_good(path: Path) -> bool:
    sections = load_checkpoint(path).get("cfg") or {}
    return bool((sections.get("checkpoint") or {}).get("maximize_best_checkpoint_metric"))


def select(
    inputs: list[Path],
    last: int | None = None,
    last_updates: int | None = None,
    best: int | None = None,
    suffix: str = "",
) -> list[Path]:
    """The files to average, the newest (or best) last.

    Args:
        inputs: folders of checkpoints with one of the other arguments, or checkpoint files.
        last: number of checkpoints of the last epochs.
        last_updates: number of checkpoints of the highest updates.
        best: number of the best checkpoints by validation.
        suffix: --checkpoint-suffix of the training.

    Raises:
        ValueError: arguments and files don't fit; names the flag of `vaswani average`.
    """
    files = find_files(inputs)
    if last is not None:
        return _choose_numbered(files, last, suffix, EPOCH, "--last", "checkpointN")
    if last_updates is not None:
        names = "checkpoint_EPOCH_UPDATE"
        return _choose_numbered(files, last_updates, suffix, UPDATE, "--last-updates", names)
    if best is not None:
        return choose_best(files, best, suffix)
    folder = next((item for item in inputs if item.is_dir()), None)
    if folder is not None:
        raise ValueError(
            f"--inputs {folder} is a folder: say which of its checkpoints with --last N, "
            "--last-updates N or --best N"
        )
    return files
