"""Checkpoint files, read without running their code, and checked.

A checkpoint may come from somebody else. PyTorch's restricted unpickler builds only tensors and
plain containers. `HARMLESS_GLOBALS` are allowed as well. PyTorch writes a zip
archive with a CRC-32 of each tensor, but doesn't check the sums as it reads: a flipped bit changes
a weight. Python's own zip reader checks them. A checkpoint that loads holds plain data, but these
may be anything; so every error while a model is built from it counts as an error of the file.

`model.safetensors` holds the weights alone, and `config.json` beside it the rest of the model: the
model's and the task's options, the state of the task, the names of weights that share memory (tied
embeddings, section 3.4), and the SHA-256 sum of model.safetensors.
"""

import argparse
import contextlib
import hashlib
import os
import pickle
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vaswani_plugin.errors import UserError, wants_traceback
from vaswani_plugin.text.lines import read_json
from vaswani_plugin.text.settings import CONFIG

Checkpoint = dict[str, Any]

_MULTIARRAY: Any = np._core.multiarray if hasattr(np, "_core") else np.core.multiarray  # type: ignore[attr-defined]
_NUMBERS = "bool uint8 int8 int16 int32 int64 float16 float32 float64".split()
HARMLESS_GLOBALS: tuple[Any, ...] = (
    # a model that is registered without a dataclass keeps its flags in a Namespace
    argparse.Namespace,
    # --eval-bleu keeps its sums as numpy scalars and arrays of numbers
    np.ndarray,
    np.dtype,
    *(type(np.dtype(number)) for number in _NUMBERS),
    *(
        (getattr(_MULTIARRAY, name), f"numpy.{module}.multiarray.{name}")
        for name in ("scalar", "_reconstruct")
        for module in ("core", "_core")  # as numpy 1 and numpy 2 write them
    ),
)
"""For `add_safe_globals`: classes and functions, some with their names in files."""

_ARCHIVE_START = b"PK\x03\x04"
_PICKLE_START = b"\x80"  # files of PyTorch before 1.6, which hold no checksums


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a fairseq checkpoint to the CPU.

    Args:
        path: the file; a `.safetensors` file needs its config.json beside it.

    Returns:
        The dictionary of the file; its "model" maps names to tensors.

    Raises:
        OSError: the file is missing or may not be read.
        UserError: it would run code, is damaged, or is no fairseq checkpoint; names the file.
    """
    if path.suffix == ".safetensors":
        return _load_safetensors(path)
    if wrong := damage(path):  # PyTorch does not notice flipped bits
        raise UserError(f"{path}: it {wrong}; copy it again or use another one")
    torch.serialization.add_safe_globals(list(HARMLESS_GLOBALS))
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:
        raise UserError(f"{path}: it {why_unreadable(error)}") from error
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not model:
        raise UserError(f"{path}: no fairseq checkpoint: it holds no model")
    checkpoint: Checkpoint = state
    return checkpoint


def why_unreadable(error: Exception) -> str:
    """The rest of a sentence that starts with a checkpoint's name."""
    foreign = re.search(r"GLOBAL (\w[\w.]*)", str(error)[:2000])
    if isinstance(error, pickle.UnpicklingError) and foreign:
        return (
            f"is refused: it would call {foreign[1]}, which is no data of a model (nothing of it "
            "was run); use a checkpoint that fairseq-train wrote"
        )
    return "is truncated, or no checkpoint at all; copy it again or use another one"


def damage(path: str | os.PathLike[str]) -> str | None:
    """Find damage in a file that `torch.save` wrote.

    Returns:
        The rest of a sentence that starts with the file's name. None where each checksum is right,
        and for a file of PyTorch before 1.6.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                wrong = archive.testzip()
            return wrong and f"is not as it was saved (the sum of {wrong} is wrong)"
    except Exception as error:  # damaged headers give errors of any kind
        return f"is not as it was saved ({error})"
    with open(path, "rb") as file:
        start = file.read(len(_ARCHIVE_START))
    if not start:
        return "is empty"
    if start.startswith(_PICKLE_START):
        return None
    return "is truncated" if start == _ARCHIVE_START else "is no checkpoint"


@contextlib.contextmanager
def untrusted(path: Path) -> Iterator[None]:
    """Within it, any error but OSError and MemoryError becomes a `UserError` that names the file.

    With VASWANI_TRACEBACK=1 errors stay as they are, for debugging.
    """
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:
        is_named = isinstance(error, ValueError) and str(path) in str(error)
        if is_named or wants_traceback():
            raise
        text = " ".join(str(error).split())
        if not isinstance(error, ValueError):
            text = f"can't be used ({type(error).__name__}: {text}): damaged, or of another program"
        raise UserError(f"{path}: {text}") from error


def _load_safetensors(path: Path) -> Checkpoint:
    """Read a model that `save_safetensors` wrote; shared weights are one tensor."""
    from safetensors.torch import load_file

    described = path.with_name(CONFIG)
    if not described.is_file():
        raise UserError(f"{described} does not exist: the weights need it beside them; copy both")
    config = read_json(described, "copy it again")
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != config["sha256"]:
        raise UserError(
            f"{path}: damaged, or of another training than its {CONFIG}: copy both again"
        )
    tensors = load_file(path)
    weights = tensors | {name: tensors[owner] for name, owner in config["shared"].items()}
    return {
        "cfg": {"model": config["model"], "task": config["task"]},
        "model": weights,
        "task_state": config["task_state"],
        "optimizer_history": [{"num_updates": config["updates"]}],
    }
