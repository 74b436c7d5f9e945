"""Checkpoint files: read without running their code, checked, written whole or not at all.

A checkpoint may come from somebody else. PyTorch's restricted unpickler builds only tensors and
plain containers. While a file is read, `HARMLESS_GLOBALS` are allowed as well. PyTorch writes a zip
archive with a CRC-32 of each tensor, but doesn't check the sums as it reads: a flipped bit changes
a weight. Python's own zip reader checks them. A checkpoint that loads holds plain data, but these
may be anything; so every error while a model is built from it counts as an error of the file.
"""

import argparse
import contextlib
import errno
import os
import pickle
import re
import struct
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import _weights_only_unpickler

from vaswani_plugin.errors import wants_traceback
from vaswani_plugin.text.fork_lock import ForkLock

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
LONGEST_REFUSAL = 2000
"""Longest message of a refused pickle, in characters, that PyTorch gets; the rest is cut off.
PyTorch searches the message in quadratic time, and the file decides how long the message is."""

_LOADING = ForkLock()
"""What PyTorch's unpickler allows and how it refuses are settings of the whole process."""

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

_GOOD: set[tuple[Any, ...]] = set()
"""Files that this process found intact, by values that change when a file is written."""

_SETTLED = 2.0
"""For so many seconds after a write, another write may leave the file's times unchanged."""


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
        # Training needs no safetensors, and this file serves it, too.
        from vaswani_plugin.inference.safetensors_file import load_safetensors

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


def claims_more_than_it_holds(path: str | os.PathLike[str]) -> bool:
    """Return whether the parts of an archive are larger than its file, which costs memory to read.

    `torch.save` compresses nothing. False for other files, which `damage` judges.

    Raises:
        OSError: when the file is missing or may not be read.
    """
    with open(path, "rb") as file:
        if file.read(len(_ARCHIVE_START)) != _ARCHIVE_START:
            return False
        try:
            with zipfile.ZipFile(file) as archive:
                claimed = sum(part.file_size for part in archive.infolist())
        except _BROKEN_ARCHIVE:
            return False
        return claimed > os.fstat(file.fileno()).st_size


def damage(path: str | os.PathLike[str]) -> str | None:
    """Find damage in a file that `torch.save` wrote.

    A file that was found intact is not read again until it changes.

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
            status = os.fstat(file.fileno())
            identity = _identity(status)
            if identity in _GOOD:
                return None
            if zipfile.is_zipfile(file):
                wrong = _wrong_sum(file)
                if wrong is None and time.time() - status.st_ctime > _SETTLED:
                    _GOOD.add(identity)
                return wrong
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


def _identity(status: os.stat_result) -> tuple[int, ...]:
    times = status.st_mtime_ns, status.st_ctime_ns
    return status.st_dev, status.st_ino, status.st_size, *times


def _wrong_sum(file: Any) -> str | None:
    try:
        with zipfile.ZipFile(file) as archive:
            wrong = archive.testzip()
    except _BROKEN_ARCHIVE as error:
        return f"is not as it was saved ({error})"
    return wrong and f"is not as it was saved (the sum of {wrong} is wrong)"


@contextlib.contextmanager
def untrusted(path: Path) -> Iterator[None]:
    """Within the context, any error becomes a ValueError that names the file.

    With VASWANI_TRACEBACK=1 errors stay as they are, for debugging.

    Args:
        path: the file.

    Raises:
        ValueError: for any error within, except OSError and MemoryError, which stay as they are.
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
        raise ValueError(f"{path}: {text}") from error
