"""Checkpoint files: read without running their code, checked, written whole or not at all.

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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vaswani_plugin.errors import UserError, wants_traceback
from vaswani_plugin.text.fork_lock import ForkLock
from vaswani_plugin.text.lines import read_json
from vaswani_plugin.text.settings import CONFIG

Checkpoint = dict[str, Any]
Weights = dict[str, torch.Tensor]

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

_LOADING = ForkLock()
"""What PyTorch's unpickler allows is a setting of the whole process."""

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
_OF_THE_TRAINING = {"data"}
"""Options of a task that are paths on the machine of the training."""


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


def save_checkpoint(state: Checkpoint, path: Path) -> None:
    """Write a checkpoint, whole or not at all.

    Raises:
        OSError: the folder can't be written; an older file at `path` then stays as it was.
    """
    from vaswani_plugin.text.outputs import write_bytes_atomically  # readers write nothing

    try:
        with write_bytes_atomically(path) as stream:
            torch.save(state, stream)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            # PyTorch's zip writer turns a full disk into its own error.
            raise OSError(f"{path}: {error.__context__}") from error
        raise


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


def shared_owners(weights: Weights) -> dict[str, str]:
    """Map each name to the first one with the same memory and shape: in most cases itself."""
    owners: dict[tuple[Any, ...], str] = {}
    return {key: owners.setdefault(_memory(key, tensor), key) for key, tensor in weights.items()}


def _memory(key: str, tensor: torch.Tensor) -> tuple[Any, ...]:
    if tensor.numel() == 0:
        # Empty tensors all live at address 0.
        return (key,)
    start = (tensor.untyped_storage().data_ptr(), tensor.storage_offset())
    return (*start, tuple(tensor.shape), tensor.stride(), tensor.dtype)


def model_config(state: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a checkpoint's model, as key: value.

    A model with a dataclass has its own section. For a model without one, fairseq stores every flag
    of the run there. Flags that belong to another section (seed, save_dir) are left out. Older
    checkpoints have no sections and hold all flags in "args".
    """
    sections = state.get("cfg") or {}
    model = sections.get("model") if sections else state.get("args")
    if isinstance(model, argparse.Namespace):
        owned = {
            key
            for name, section in sections.items()
            if name != "model" and isinstance(section, dict)
            for key in section
        }
        return {k: v for k, v in vars(model).items() if k not in owned and k not in sections}
    return dict(model or {})


def updates_of(state: Mapping[str, Any]) -> int | None:
    """The update after which a checkpoint was saved; None where it doesn't say."""
    history = state.get("optimizer_history") or [{}]
    found: int | None = history[-1].get("num_updates")
    return found


def save_safetensors(state: Mapping[str, Any], path: Path) -> None:
    """Write the model of a checkpoint, and config.json beside it, each whole or not at all.

    Args:
        state: a checkpoint as `load_checkpoint` returns it; its optimizer's state is left out.
        path: of the weights, such as FOLDER/model.safetensors.

    Raises:
        OSError: a file can't be written.
    """
    from safetensors.torch import save

    from vaswani_plugin.text.outputs import write_bytes_atomically, write_json

    weights = state["model"]
    owners = shared_owners(weights)
    # Copies: safetensors refuses tensors that share memory or aren't contiguous.
    tensors = {
        name: weights[name].detach().clone(memory_format=torch.contiguous_format)
        for name in dict.fromkeys(owners.values())
    }
    content = save(tensors, metadata={"format": "pt"})
    with write_bytes_atomically(path) as stream:
        stream.write(content)
    task = _section(state, "task")
    config = {
        "version": VERSION,
        "model": _plain(model_config(state)),
        "task": {key: value for key, value in task.items() if key not in _OF_THE_TRAINING},
        "task_state": _plain(state.get("task_state") or {}),
        "updates": int(updates_of(state) or 0),
        "training": {
            "max_tokens": _section(state, "dataset").get("max_tokens"),
            "update_freq": _section(state, "optimization").get("update_freq"),
            "workers": _section(state, "distributed_training").get("distributed_world_size"),
            "seed": _section(state, "common").get("seed"),
        },
        "shared": {name: owner for name, owner in owners.items() if name != owner},
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    write_json(path.with_name(CONFIG), config)


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


def _section(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = (state.get("cfg") or {}).get(name)
    return _plain(section) if isinstance(section, Mapping) else {}


def _plain(value: Any) -> Any:
    """Convert a value for JSON: other types become None, keys that are no strings are left out."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if isinstance(key, str)}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else None
