"""A checkpoint's model as `model.safetensors`, which holds nothing but numbers, and `config.json`.

config.json holds the rest of the model: the model's and the task's options, the state of the task,
the names of weights that share memory (tied embeddings, section 3.4), and the SHA-256 sum of
model.safetensors. Both files are written whole or not at all.
"""

import argparse
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.lines import read_json
from vaswani_plugin.text.outputs import write_bytes_atomically, write_json
from vaswani_plugin.text.settings import CONFIG

Weights = dict[str, torch.Tensor]

VERSION = 1
_OF_THE_TRAINING = {"data"}
"""Options of a task that are paths on the machine of the training."""


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
    """Write the model of a checkpoint, and config.json beside it.

    Args:
        state: a checkpoint as `load_checkpoint` returns it; its optimizer's state is left out.
        path: of the weights, such as FOLDER/model.safetensors.

    Raises:
        OSError: a file can't be written.
    """
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
    config = {
        "version": VERSION,
        **_options(state),
        "shared": {name: owner for name, owner in owners.items() if name != owner},
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    write_json(path.with_name(CONFIG), config)


def load_safetensors(path: Path) -> dict[str, Any]:
    """Read a model that `save_safetensors` wrote, to the CPU.

    Returns:
        A checkpoint: "model" (weights by name; shared ones are one tensor), "cfg" with the parts
        "model" and "task", "task_state", and "optimizer_history" with the number of updates.

    Raises:
        ValueError: a file is damaged, the two don't belong together, or config.json is missing;
            names the file.
        OSError: a file can't be read.
    """
    config = read_config(path.with_name(CONFIG))
    if _digest(path) != config["sha256"]:
        raise UserError(
            f"{path}: damaged, or of another training than its {CONFIG}: copy both again"
        )
    try:
        tensors = load_file(path)
        weights = tensors | {name: tensors[owner] for name, owner in config["shared"].items()}
    except (safetensors.SafetensorError, KeyError, TypeError) as error:
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
    kinds = {
        **dict.fromkeys(("model", "task", "task_state", "training", "shared"), dict),
        **{"version": int, "updates": int, "sha256": str},
    }
    for key, kind in kinds.items():
        if not isinstance(config, dict) or not isinstance(config.get(key), kind):
            raise UserError(f"{path}: no {key!r} in it: it goes with no model; copy it again")
    if config["version"] != VERSION:
        raise UserError(
            f"{path}: its version is {config['version']}, this program reads {VERSION}: export "
            "the model again"
        )
    return config


def _options(state: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of config.json that come from a checkpoint's configuration."""
    cfg = state.get("cfg") or {}
    task = _section(cfg, "task")
    return {
        "model": _plain(model_config(state)),
        "task": {key: value for key, value in task.items() if key not in _OF_THE_TRAINING},
        "task_state": _plain(state.get("task_state") or {}),
        "updates": int(updates_of(state) or 0),
        "training": {
            "max_tokens": _section(cfg, "dataset").get("max_tokens"),
            "update_freq": _section(cfg, "optimization").get("update_freq"),
            "workers": _section(cfg, "distributed_training").get("distributed_world_size"),
            "seed": _section(cfg, "common").get("seed"),
        },
    }


def _section(cfg: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = cfg.get(name)
    return _plain(section) if isinstance(section, Mapping) else {}


def _plain(value: Any) -> Any:
    """Convert a value for JSON: other types become None, keys that are no strings are left out."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if isinstance(key, str)}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else None


def _digest(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
