"""One-line errors, with the remedy, for checkpoints that don't fit the model or the data."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vaswani_plugin.errors import CheckpointError, UserError

DIGESTS = "dictionary_sha256"
"""Where a task's part of a checkpoint has the digests of its dictionaries, by side."""


def refuse_other_dictionaries(
    folder: str | Path, task_state: Mapping[str, Any], digests: Mapping[str, str]
) -> None:
    """Refuse dictionaries that differ from those of the training, even if their sizes agree.

    Args:
        folder: of the dictionaries, for the message.
        task_state: the task's part of the checkpoint; one without digests fits any dictionary.
        digests: of the dictionaries, by side: "source" or "target".

    Raises:
        UserError: a dictionary has other words, or the same words in another order.
    """
    trained_with = task_state.get(DIGESTS) or {}
    for side, digest in digests.items():
        if trained_with.get(side, digest) != digest:
            raise UserError(
                f"the {side} dictionary of {folder} is not the one that the checkpoint was trained "
                f"with; give the data folder (its dict.*.txt) it was trained on"
            )


@contextmanager
def mismatches_explained(files: str) -> Iterator[None]:
    """Turn PyTorch's error about weights that don't fit into a `CheckpointError`.

    Args:
        files: the checkpoints' names, for the message.

    Raises:
        CheckpointError: the weights don't fit the model. Other errors pass unchanged.
    """
    try:
        yield
    except Exception as error:
        # fairseq's Trainer raises a bare Exception while it handles PyTorch's RuntimeError
        cause: BaseException | None = error
        while cause is not None and "Error(s) in loading state_dict" not in str(cause):
            cause = cause.__context__
        if cause is None:
            raise
        raise CheckpointError(f"checkpoint {files} {mismatch_reason(str(cause))}") from error


def mismatch_reason(text: str) -> str:
    """Find the reason in PyTorch's message: another dictionary, or another architecture.

    Args:
        text: the message of `load_state_dict`.

    Returns:
        The reason and the remedy, to be read after the checkpoint's name.
    """
    size = r"torch\.Size\(\[([\d, ]*)\]\)"
    sizes = re.findall(rf"size mismatch for (\S+): .*?{size}[^[]*{size}", text)
    shapes = [[tuple(map(int, s.split(","))) for s in pair if s] for _, *pair in sizes]
    rows = {(a[0], b[0]) for a, b in shapes if a[1:] == b[1:] and len(a) == 2}
    listed = re.search(r"(Missing|Unexpected) key\(s\) in state_dict: \"([^\"]+)\"", text)
    of_words = not any("position" in name for name, *_ in sizes)
    if of_words and len(rows) == 1 and listed is None and all(len(a) == 2 for a, _ in shapes):
        theirs, ours = rows.pop()
        return (
            f"was trained with a dictionary of {theirs} entries, the data folder's has {ours}:"
            " give the data folder (its dict.*.txt) that the checkpoint was trained on"
        )
    if sizes:
        name, theirs, ours = sizes[0]
        first = f"{name} is [{theirs}] in the file and [{ours}] in the model"
    else:
        first = f"{listed[1].lower()} key {listed[2]}" if listed else " ".join(text.split())[:200]
    return (
        f"does not fit this model ({first}): give the --arch and sizes that it was trained with,"
        " or another --save-dir"
    )
