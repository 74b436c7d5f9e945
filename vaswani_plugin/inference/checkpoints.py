"""Checkpoint files: loaded without running their code, written whole or not at all. Torch only.

A checkpoint may come from somebody else. PyTorch's restricted unpickler builds only tensors and
plain containers. While a file is read, `HARMLESS_GLOBALS` are allowed as well.
"""

import contextlib
import errno
import os
import pickle
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import _weights_only_unpickler

from vaswani_plugin.checkpoint_globals import HARMLESS_GLOBALS, LONGEST_REFUSAL
from vaswani_plugin.checkpoint_sums import claims_more_than_it_holds, damage
from vaswani_plugin.inference.safetensors_file import load_safetensors
from vaswani_plugin.text.fork_lock import ForkLock

Checkpoint = dict[str, Any]

_LOADING = ForkLock()
"""What PyTorch's unpickler allows and how it refuses are settings of the whole process."""

# The unpickler's errors for bytes that are a broken pickle, or no pickle at all.
_UNREADABLE = (
    *(pickle.UnpicklingError, RuntimeError, EOFError, KeyError, IndexError),
    *(AttributeError, TypeError, ValueError, AssertionError, struct.error),
)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a fairseq checkpoint to the CPU.

    Args:
        path: the file; a `.safetensors` file needs its config.json beside it.

    Returns:
        The dictionary of the file; its "model" maps names to tensors.

    Raises:
        OSError: the file is missing or can't be read.
        ValueError: it would run code, is truncated, or is no fairseq checkpoint; names the file.
    """
    if path.suffix == ".safetensors":
        return load_safetensors(path)
    if claims_more_than_it_holds(path):
        raise ValueError(f"{path}: no fairseq checkpoint: its parts are larger than the file")
    with open(path, "rb") as file, _LOADING, _harmless_globals(), _short_refusals():
        try:
            state = torch.load(file, map_location="cpu", weights_only=True)
        except OSError as error:
            if error.errno == errno.EINVAL:  # PyTorch seeks before the start of a short file
                raise ValueError(f"{path}: {_why_unreadable(error)}") from error
            raise OSError(f"{path}: can't be read: {error.strerror or error}") from error
        except _UNREADABLE as error:
            raise ValueError(f"{path}: {_why_unreadable(error)}") from error
    if wrong := damage(path):  # PyTorch does not notice flipped bits
        raise ValueError(f"{path}: it {wrong}; copy it again or use another one")
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not model:
        raise ValueError(f"{path}: no fairseq checkpoint: it holds no model")
    strange = [key for key, value in model.items() if not isinstance(value, torch.Tensor)]
    if strange:
        raise ValueError(f"{path}: no fairseq checkpoint: its model's {strange[0]!r} is no tensor")
    for name, tensor in model.items():
        # A few bytes can claim to be a tensor of any size; its use would fill the memory.
        if tensor.layout != torch.strided or tensor.nbytes > tensor.untyped_storage().nbytes():
            raise ValueError(f"{path}: no fairseq checkpoint: {name} is larger than its numbers")
    checkpoint: Checkpoint = state
    return checkpoint


def _harmless_globals() -> contextlib.AbstractContextManager[None]:
    """Within the context, `HARMLESS_GLOBALS` are allowed."""
    # On exit safe_globals removes all its arguments, even those allowed before: add only the rest.
    allowed = torch.serialization.get_safe_globals()
    added: list[Any] = [kind for kind in HARMLESS_GLOBALS if kind not in allowed]
    return torch.serialization.safe_globals(added)


@contextlib.contextmanager
def _short_refusals() -> Iterator[None]:
    """Within the context, the message of a refused pickle is short: see `LONGEST_REFUSAL`.

    PyTorch searches the message and has no public way to shorten it first.
    """
    unpickler: Any = _weights_only_unpickler.Unpickler
    original = unpickler.load

    def load(self: Any) -> Any:
        try:
            return original(self)
        except pickle.UnpicklingError as error:
            raise pickle.UnpicklingError(str(error)[:LONGEST_REFUSAL]) from error

    unpickler.load = load
    try:
        yield
    finally:
        unpickler.load = original


def _why_unreadable(error: Exception) -> str:
    foreign = re.search(r"GLOBAL (\w[\w.]*)", str(error))
    if isinstance(error, pickle.UnpicklingError) and foreign:
        return (
            f"refused: it would call {foreign[1]}, which is no data of a model (nothing of it was "
            "run); use a checkpoint that fairseq-train wrote"
        )
    return "truncated, or no checkpoint at all; copy it again or use another one"


def save_checkpoint(state: Checkpoint, path: Path) -> None:
    """Write a checkpoint to a temporary name beside `path`, then rename it.

    Raises:
        OSError: the folder can't be written; an older file at `path` then stays as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, RuntimeError) and isinstance(error.__context__, OSError):
            # PyTorch's zip writer turns a full disk into its own error.
            raise OSError(f"{path}: {error.__context__}") from error
        raise
