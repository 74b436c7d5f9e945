"""The average of checkpoints (section 6.1): the mean of each weight. It needs PyTorch only.

Checkpoints are read one at a time and accumulated in float64; the mean is cast to the type of the
files. A tensor that two names share is averaged once and stays shared. `select` goes by name.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.checkpoints import model_config, options_of, shared_owners
from vaswani_plugin.export.exported_model import OF_A_RUN, Weights, require_finite
from vaswani_plugin.inference.checkpoints import (
    DIGESTS,
    Checkpoint,
    load_checkpoint,
    naming,
    updates_of,
)


def average_checkpoints(paths: Iterable[Path]) -> Checkpoint:
    """Average fairseq checkpoints (section 6.1), the newest last, into one that fairseq loads.

    Only one file is in memory at a time, beside the sums. The result is the newest checkpoint with
    the averaged weights; "extra_state" lists the names of the files. It has no optimizer state and
    no moving average: these belong to other weights. Files of different models, languages or
    dictionaries, and weights with NaN or infinity, are refused by file and key.
    """
    names: list[str] = []
    sums: Weights = {}
    first: dict[str, Any] = {}
    known: dict[str, Any] = {}  # of the data, from the first file that tells
    for path in paths:
        newest = load_checkpoint(path)
        with naming(path):
            weights = newest.pop("model")
            require_finite(weights)
            types = {f"the weight {k}": f"{w.dtype} {tuple(w.shape)}" for k, w in weights.items()}
            task = options_of(newest, "task")
            data = {key: task[key] for key in ("source_lang", "target_lang") if task.get(key)}
            digests = (newest.get("task_state") or {}).get(DIGESTS) or {}
            data |= {f"the {side} dictionary": digest for side, digest in digests.items()}
            known = data | known  # an older file doesn't tell
            options = {k: v for k, v in model_config(newest).items() if k not in OF_A_RUN}
            properties = options | types
            if not names:
                first, owners = properties, shared_owners(weights)
                dtypes = {key: tensor.dtype for key, tensor in weights.items()}
                sums = {
                    key: torch.zeros_like(weights[key], dtype=torch.float64)
                    for key in owners.values()
                }
            both = properties | data, first | {key: known[key] for key in data}
            for key in sorted(both[0].keys() | both[1].keys()):
                here, there = (each.get(key, "(absent)") for each in both)
                if here != there:
                    other = f"another model than {names[0]}: {key} is {here} here and {there} there"
                    raise UserError(f"{path}: {other}; average checkpoints of one model only")
            for key, total in sums.items():
                total += weights[key]
        newest["last_optimizer_state"] = None
        names.append(path.name)
    means = {key: (total / len(names)).to(dtypes[key]) for key, total in sums.items()}
    state = newest.get("extra_state") or {}
    extra = {key: state[key] for key in state if key not in ("ema", "ema_fp32_params")}
    model = {key: means[owner] for key, owner in owners.items()}
    return {**newest, "model": model, "extra_state": {**extra, "averaged": names}}


def select(
    inputs: list[Path],
    last: int | None = None,
    last_updates: int | None = None,
    best: int | None = None,
    at_most: bool = False,
) -> list[Path]:
    """The files to average, the newest (or best) last.

    `inputs` are checkpoint files, or folders with one of the others: the number of checkpoints of
    the last epochs, of the highest updates, or of the best validation. With `at_most` fewer will
    do. Refusals name the flag of `vaswani average`.
    """
    files: list[Path] = []
    for item in inputs:
        files += sorted(item.glob("*.pt")) if item.is_dir() else [item]
    if len({path.resolve() for path in files}) < len(files):
        raise UserError("--inputs: a file is given twice, which would weigh it double")
    if last is not None:
        flag, count, names = "--last", last, "checkpointN"
        chosen = _newest(files, flag, r"checkpoint(\d+)")
    elif last_updates is not None:
        flag, count, names = "--last-updates", last_updates, "checkpoint_EPOCH_UPDATE"
        chosen = _newest(files, flag, r"checkpoint_\d+_(\d+)")
    elif best is not None:
        flag, count, names = "--best", best, "checkpoint.best_METRIC_VALUE"
        chosen = _best(files)
        if at_most and not chosen:  # stopped before its first validation
            chosen = [path for _, path in _named(files, "checkpoint_last")]
    else:
        for folder in filter(Path.is_dir, inputs):
            flags = "--last N, --last-updates N or --best N"
            raise UserError(f"--inputs {folder} is a folder: say which checkpoints with {flags}")
        return files
    if len(chosen) < (1 if at_most else count):
        final = ", the final state counted" if chosen and best is None else ""
        number = f"only {len(chosen)}" if chosen else "none"
        has = f"--inputs has {number} named {names}.pt{final}"
        raise UserError(f"{flag} {count}: {has}; ask for fewer, train on, or name files")
    return chosen[-count:]


def _named(files: list[Path], pattern: str) -> list[tuple[re.Match[str], Path]]:
    whole = re.compile(rf"{pattern}\.pt")
    return [(match, path) for path in files if (match := whole.fullmatch(path.name))]


def _newest(files: list[Path], flag: str, pattern: str) -> list[Path]:
    """The files of a pattern by their numbers, and checkpoint_last.pt if it has more updates."""
    numbered = sorted((int(match[1]), path) for match, path in _named(files, pattern))
    chosen = [path for _, path in numbered]
    for _, last in _named(files, "checkpoint_last"):
        update = updates_of(load_checkpoint(last))
        before: int | None = numbered[-1][0] if numbered else 0
        if numbered and flag == "--last":
            before = updates_of(load_checkpoint(chosen[-1]))
        if before is not None and update is not None and update > before:
            chosen.append(last)
    return chosen


def _best(files: list[Path]) -> list[Path]:
    """The files of the best by the value in their names; options say whether high is good."""
    matches = _named(files, r"checkpoint\.best_(.+)_(\d+(?:\.\d+)?)")
    metrics = sorted({match[1] for match, _ in matches})
    if len(metrics) > 1:
        by = " and by ".join(metrics)
        raise UserError(f"--best: --inputs has the best by {by}; name the files")
    values = sorted((float(match[2]), path) for match, path in matches)
    if values:
        section = (load_checkpoint(values[0][1]).get("cfg") or {}).get("checkpoint") or {}
        if not section.get("maximize_best_checkpoint_metric"):
            values.reverse()
    return [path for _, path in values]
