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

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.checkpoints import model_config, shared_owners, updates_of
from vaswani_plugin.export.exported_model import Weights, require_finite
from vaswani_plugin.inference.checkpoints import Checkpoint, load_checkpoint, untrusted


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
        UserError: no files, a bad file, a weight with NaN or infinity, or files that don't match;
            names file and key.
    """
    names: list[str] = []
    sums: Weights = {}
    outline: dict[str, Any] = {}
    newest: Checkpoint = {}
    first: Path | None = None
    for path in paths:
        newest = load_checkpoint(path)
        with untrusted(path):
            weights = newest.pop("model")
            require_finite(weights)
            found = _outline(weights, model_config(newest))
            if first is None:
                first, outline, owners = path, found, shared_owners(weights)
                dtypes = {key: tensor.dtype for key, tensor in weights.items()}
                sums = {
                    key: torch.zeros_like(weights[key], dtype=torch.float64)
                    for key in owners.values()
                }
            _require_equal(found, outline, path, first)
            for key, total in sums.items():
                total += weights[key]
        newest["last_optimizer_state"] = None
        names.append(path.name)
    if first is None:
        raise UserError("there is nothing to average: give at least one checkpoint")
    means = {key: (total / len(names)).to(dtypes[key]) for key, total in sums.items()}
    extra = dict(newest.get("extra_state") or {})
    for key in ("ema", "ema_fp32_params"):
        extra.pop(key, None)
    model = {key: means[owner] for key, owner in owners.items()}
    return {**newest, "model": model, "extra_state": {**extra, "averaged": names}}


def _outline(weights: Weights, config: dict[str, Any]) -> dict[str, Any]:
    """What checkpoints of one model have in common, by name."""
    found = dict(config)
    for key, owner in shared_owners(weights).items():
        tensor = weights[key]
        value = "" if tensor.is_floating_point() else f" {tensor.tolist()}"
        shared = "" if owner == key else f" shared with {owner}"
        found[f"the weight {key}"] = f"{tensor.dtype} {tuple(tensor.shape)}{value}{shared}"
    return found


def _require_equal(found: dict[str, Any], outline: dict[str, Any], path: Path, first: Path) -> None:
    for key in sorted(found.keys() | outline.keys()):
        here, there = (each.get(key, "(absent)") for each in (found, outline))
        if here != there:
            raise UserError(
                f"{path}: another model than {first}: {key} is {here} here and {there} there; "
                "average checkpoints of one model only"
            )


def select(
    inputs: list[Path],
    last: int | None = None,
    last_updates: int | None = None,
    best: int | None = None,
    at_most: bool = False,
) -> list[Path]:
    """The files to average, the newest (or best) last.

    Args:
        inputs: folders of checkpoints with one of the other arguments, or checkpoint files.
        last: number of checkpoints of the last epochs.
        last_updates: number of checkpoints of the highest updates.
        best: number of the best checkpoints by validation.
        at_most: whether fewer will do, where a short training has left no more.

    Raises:
        UserError: arguments and files don't fit; names the flag of `vaswani average`.
    """
    files: list[Path] = []
    for item in inputs:
        if not item.exists():
            raise UserError(f"--inputs {item}: there is no such file or folder")
        files += sorted(item.glob("*.pt")) if item.is_dir() else [item]
    for number, path in enumerate(files):
        if any(path.samefile(other) for other in files[:number]):
            raise UserError(f"--inputs {path}: given twice, which would weigh it double")
    if last is not None:
        return _newest(files, last, at_most, r"checkpoint(\d+)", "--last", "checkpointN")
    if last_updates is not None:
        flag, names = "--last-updates", "checkpoint_EPOCH_UPDATE"
        return _newest(files, last_updates, at_most, r"checkpoint_\d+_(\d+)", flag, names)
    if best is not None:
        return _best(files, best, at_most)
    folder = next((item for item in inputs if item.is_dir()), None)
    if folder is not None:
        raise UserError(
            f"--inputs {folder} is a folder: say which of its checkpoints with --last N, "
            "--last-updates N or --best N"
        )
    return files


def _named(files: list[Path], pattern: str) -> list[tuple[re.Match[str], Path]]:
    whole = re.compile(rf"{pattern}\.pt")
    return [(match, path) for path in files if (match := whole.fullmatch(path.name))]


def _newest(
    files: list[Path], count: int, at_most: bool, pattern: str, flag: str, names: str
) -> list[Path]:
    """The `count` files of the highest numbers, in ascending order.

    checkpoint_last.pt counts if it was saved after the last numbered one: --max-update may end a
    training inside an epoch.
    """
    numbered = sorted((int(match[1]), path) for match, path in _named(files, pattern))
    chosen = [path for _, path in numbered]
    for _, last in _named(files, "checkpoint_last"):
        update, before = updates_of(load_checkpoint(last)), 0
        if numbered and flag == "--last":
            before = updates_of(load_checkpoint(chosen[-1]))
        elif numbered:
            before = numbered[-1][0]
        if None not in (before, update) and update > before:
            chosen.append(last)
    return _enough(chosen, count, at_most, flag, names)


def _best(files: list[Path], count: int, at_most: bool) -> list[Path]:
    """The `count` best files by the value in their names, the best one last.

    The checkpoints' options say whether high values are good.
    """
    found = _named(files, r"checkpoint\.best_(.+)_(\d+(?:\.\d+)?)")
    metrics = sorted({match[1] for match, _ in found})
    if len(metrics) > 1:
        raise UserError(
            f"--best {count}: --inputs has the best by {' and by '.join(metrics)}; name the files"
        )
    values = sorted((float(match[2]), path) for match, path in found)
    if values:
        section = (load_checkpoint(values[0][1]).get("cfg") or {}).get("checkpoint") or {}
        if not section.get("maximize_best_checkpoint_metric"):
            values.reverse()
    chosen = [path for _, path in values]
    return _enough(chosen, count, at_most, "--best", "checkpoint.best_METRIC_VALUE")


def _enough(chosen: list[Path], count: int, at_most: bool, flag: str, names: str) -> list[Path]:
    """The last `count`; refuses fewer, unless `at_most`."""
    if len(chosen) < (1 if at_most else count):
        raise UserError(
            f"{flag} {count}: there are only {len(chosen)} checkpoints named {names}.pt in "
            f"--inputs, the final state counted; ask for fewer, train on, or name files without "
            f"{flag}"
        )
    return chosen[-count:]
