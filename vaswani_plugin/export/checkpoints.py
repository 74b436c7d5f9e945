"""Checkpoints that the exports write, whole or not at all; `inference/checkpoints.py` reads them.

`model.safetensors` has each matrix once, also where several names share it (section 3.4).
"""

import argparse
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from vaswani_plugin.files.outputs import write_bytes_atomically, write_json
from vaswani_plugin.inference.checkpoints import Checkpoint, updates_of
from vaswani_plugin.text.settings import CONFIG


def save_checkpoint(state: Checkpoint, path: Path) -> None:
    """Write a checkpoint, whole or not at all."""
    try:
        with write_bytes_atomically(path) as stream:
            torch.save(state, stream)
    except RuntimeError as error:
        if isinstance(cause := error.__context__, OSError):
            # PyTorch's zip writer turns a full disk into its own error.
            raise OSError(cause.errno, cause.strerror, str(path)) from error
        raise


def shared_owners(weights: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Map each name to the first one with the same memory and shape: in most cases itself."""
    by_memory: dict[tuple[Any, ...], str] = {}
    owners = {}
    for key, tensor in weights.items():
        start = (tensor.untyped_storage().data_ptr(), tensor.storage_offset())
        memory = (*start, tuple(tensor.shape), tensor.stride(), tensor.dtype)
        # Empty tensors all live at address 0.
        owners[key] = by_memory.setdefault(memory if tensor.numel() else (key,), key)
    return owners


def model_config(state: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a checkpoint's model.

    For a model without a dataclass, fairseq stores every flag of the run there: those of other
    sections (seed, save_dir) are left out. Older checkpoints hold all flags in "args".
    """
    sections = state.get("cfg") or {}
    model = sections.get("model") if sections else state.get("args")
    if isinstance(model, argparse.Namespace):
        others = (part for name, part in sections.items() if name != "model")
        owned = {*sections, *(key for part in others if isinstance(part, dict) for key in part)}
        return {key: value for key, value in vars(model).items() if key not in owned}
    return dict(model or {})


def options_of(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A checkpoint's options of a section, such as "task"; old ones have all in one place."""
    section = (state.get("cfg") or {}).get(name) or state.get("args") or {}
    return dict(vars(section) if isinstance(section, argparse.Namespace) else section)


def save_safetensors(state: Mapping[str, Any], path: Path) -> None:
    """Write a checkpoint's model, and config.json beside it, each whole or not at all."""
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
        "version": 1,
        "model": _plain(model_config(state)),
        "task": {k: v for k, v in _plain(options_of(state, "task")).items() if k != "data"},
        "task_state": _plain(state.get("task_state") or {}),
        "updates": int(updates_of(state) or 0),
        "training": {
            "max_tokens": options_of(state, "dataset").get("max_tokens"),
            "update_freq": _plain(options_of(state, "optimization").get("update_freq")),
            "workers": options_of(state, "distributed_training").get("distributed_world_size"),
            "seed": options_of(state, "common").get("seed"),
        },
        "shared": {name: owner for name, owner in owners.items() if name != owner},
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    write_json(path.with_name(CONFIG), config)


def _plain(value: Any) -> Any:
    """Convert a value for JSON: other types become None, keys that are no strings are left out."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if isinstance(key, str)}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else None
