"""Chooses the checkpoints to average, by the names that fairseq gives them."""

import re
from pathlib import Path

from vaswani_plugin.inference.checkpoints import load_checkpoint
from vaswani_plugin.inference.safetensors_file import updates_of

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
