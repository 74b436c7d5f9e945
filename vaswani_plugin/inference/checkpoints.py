"""Checkpoint files, read without running their code, and checked.

A checkpoint may come from somebody else. PyTorch's restricted unpickler builds only tensors and
plain containers. While a file is read, `HARMLESS_GLOBALS` are allowed as well. PyTorch writes a zip
archive with a CRC-32 of each tensor, but doesn't check the sums as it reads: a flipped bit changes
a weight. Python's own zip reader checks them. A checkpoint that loads holds plain data, but these
may be anything; so every error while a model is built from it counts as an error of the file.

`model.safetensors` holds the weights alone, and `config.json` beside it the rest of the model: the
model's and the task's options, the state of the task, the names of weights that share memory (tied
embeddings, section 3.4), and the SHA-256 sum of model.safetensors.
"""

import argparse
import contextlib
import errno
import hashlib
import os
import pickle
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch

from vaswani_plugin.errors import UserError, wants_traceback
from vaswani_plugin.text.lines import read_json
from vaswani_plugin.text.settings import CONFIG

Checkpoint = dict[str, Any]

_MULTIARRAY: Any = np._core.multiarray if hasattr(np, "_core") else np.core.multiarray  # type: ignore[attr-defined]
_NUMBERS = "bool uint8 int8 int16 int32 int64 float16 float32 float64".split()
HARMLESS_GLOBALS = (
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
"""For `torch.serialization.safe_globals`: classes and functions, some with their names in files."""

_LOADING = Lock()
"""What PyTorch's unpickler allows is a setting of the whole process."""


def _unlock() -> None:
    """A child of `fork` finds the lock open, whatever thread of the parent held it."""
    global _LOADING
    _LOADING = Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_unlock)

# The unpickler's errors for bytes that are a broken pickle, or no pickle at all.
_UNREADABLE = (
    *(pickle.UnpicklingError, RuntimeError, EOFError, KeyError, IndexError),
    *(AttributeError, TypeError, ValueError, AssertionError, struct.error),
)
_ARCHIVE_START = b"PK\x03\x04"
_PICKLE_START = b"\x80"  # files of PyTorch before 1.6, which hold no checksums
# Errors of the zip reader on an archive with damaged headers.
_BROKEN_ARCHIVE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    *(RuntimeError, ValueError, LookupError, OverflowError, MemoryError),
)

VERSION = 1
"""Of config.json."""
_CONFIG_KINDS: dict[str, type] = {
    **dict.fromkeys(("model", "task", "task_state", "training", "shared"), dict),
    **{"version": int, "updates": int, "sha256": str},
}


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a fairseq checkpoint to the CPU.

    Args:
        path: the file; a `.safetensors` file needs its config.json beside it.

    Returns:
        The dictionary of the file; its "model" maps names to tensors.

    Raises:
        OSError: the file is missing or may not be read.
        UserError: it would run code, is damaged, can't be fetched from the disk (a bad sector), or
            is no fairseq checkpoint; names the file.
    """
    if path.suffix == ".safetensors":
        return _load_safetensors(path)
    if wrong := damage(path):  # PyTorch does not notice flipped bits
        raise UserError(f"{path}: it {wrong}; copy it again or use another one")
    # On exit safe_globals removes all its arguments, even those allowed before: add only the rest.
    with open(path, "rb") as file, _LOADING:
        allowed = torch.serialization.get_safe_globals()
        added: list[Any] = [kind for kind in HARMLESS_GLOBALS if kind not in allowed]
        try:
            with torch.serialization.safe_globals(added):
                state = torch.load(file, map_location="cpu", weights_only=True)
        except OSError as error:
            if error.errno == errno.EINVAL:  # PyTorch seeks before the start of a short file
                raise UserError(f"{path}: {_why_unreadable(error)}") from error
            raise OSError(f"{path}: can't be read: {error.strerror or error}") from error
        except _UNREADABLE as error:
            raise UserError(f"{path}: {_why_unreadable(error)}") from error
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not model:
        raise UserError(f"{path}: no fairseq checkpoint: it holds no model")
    for name, tensor in model.items():
        if not isinstance(tensor, torch.Tensor):
            raise UserError(f"{path}: no fairseq checkpoint: its model's {name!r} is no tensor")
        # A few bytes can claim to be a tensor of any size; its use would fill the memory.
        if tensor.layout != torch.strided or tensor.nbytes > tensor.untyped_storage().nbytes():
            raise UserError(f"{path}: no fairseq checkpoint: {name} is larger than its numbers")
    checkpoint: Checkpoint = state
    return checkpoint


def _why_unreadable(error: Exception) -> str:
    foreign = re.search(r"GLOBAL (\w[\w.]*)", str(error)[:2000])
    if isinstance(error, pickle.UnpicklingError) and foreign:
        return (
            f"refused: it would call {foreign[1]}, which is no data of a model (nothing of it was "
            "run); use a checkpoint that fairseq-train wrote"
        )
    return "truncated, or no checkpoint at all; copy it again or use another one"


def damage(path: str | os.PathLike[str]) -> str | None:
    """Find damage in a file that `torch.save` wrote.

    Args:
        path: the file.

    Returns:
        The rest of a sentence that starts with the file's name. None where each checksum is right,
        and for a file of PyTorch before 1.6.

    Raises:
        OSError: when the file is missing or may not be read.
    """
    try:
        with open(path, "rb") as file:
            if zipfile.is_zipfile(file):
                try:
                    with zipfile.ZipFile(file) as archive:
                        claimed = sum(part.file_size for part in archive.infolist())
                        if claimed > os.fstat(file.fileno()).st_size:
                            return "has parts that are larger than the file"  # none is compressed
                        wrong = archive.testzip()
                except _BROKEN_ARCHIVE as error:
                    return f"is not as it was saved ({error})"
                return wrong and f"is not as it was saved (the sum of {wrong} is wrong)"
            file.seek(0)
            start = file.read(len(_ARCHIVE_START))
    except OSError as error:
        if error.errno not in (errno.EIO, errno.EINVAL):  # a bad sector; an offset before the start
            raise
        return f"can't be fetched from the disk: {error.strerror}"
    if not start:
        return "is empty"
    if start.startswith(_PICKLE_START):
        return None
    return "is truncated" if start == _ARCHIVE_START else "is no checkpoint"


@contextlib.contextmanager
def untrusted(path: Path) -> Iterator[None]:
    """Within the context, any error becomes a `UserError` that names the file.

    With VASWANI_TRACEBACK=1 errors stay as they are, for debugging.

    Args:
        path: the file.

    Raises:
        UserError: for any error within, except OSError and MemoryError, which stay as they are.
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
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    config = read_config(path.with_name(CONFIG))
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != config["sha256"]:
        raise UserError(
            f"{path}: damaged, or of another training than its {CONFIG}: copy both again"
        )
    try:
        tensors = load_file(path)
        weights = tensors | {name: tensors[owner] for name, owner in config["shared"].items()}
    except (SafetensorError, KeyError, TypeError) as error:
        raise UserError(f"{path}: no weights of a model ({error}): copy it again") from error
    return {
        "cfg": {"model": config["model"], "task": config["task"]},
        "model": weights,
        "task_state": config["task_state"],
        "optimizer_history": [{"num_updates": config["updates"]}],
    }


def read_config(path: Path) -> dict[str, Any]:
    """Read a config.json of `save_safetensors`.

    Raises:
        UserError: it is missing, or it holds something else; names the file.
        OSError: it can't be read.
    """
    if not path.is_file():
        raise UserError(f"{path} does not exist: the weights need it beside them; copy both")
    config: dict[str, Any] = read_json(path, "copy it again")
    for key, kind in _CONFIG_KINDS.items():
        if not isinstance(config, dict) or not isinstance(config.get(key), kind):
            raise UserError(f"{path}: no {key!r} in it: it goes with no model; copy it again")
    if config["version"] != VERSION:
        raise UserError(
            f"{path}: its version is {config['version']}, this program reads {VERSION}: export "
            "the model again"
        )
    return config
