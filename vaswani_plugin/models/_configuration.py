"""What models read off a configuration alike."""

from copy import copy
from dataclasses import fields
from typing import Any

from omegaconf import DictConfig, open_dict


def completed(cfg: DictConfig, kind: type) -> DictConfig:
    """A configuration with defaults for what it lacks: the fields that came after its checkpoint.

    fairseq itself completes that of a model which is named by its own name, not by an `--arch`.

    Args:
        cfg: as the command line or a checkpoint gives it, or the dataclass itself.
        kind: the dataclass.
    """
    if isinstance(cfg, kind):
        return cfg
    cfg = copy(cfg)
    with open_dict(cfg):
        for field in fields(kind):
            if field.name not in cfg:
                cfg[field.name] = field.default
    return cfg


def values_of_the_task(model: type, task: type) -> dict[str, Any]:
    """The fields that a model reads off its task, with the task's defaults.

    Args:
        model: dataclass of a model; such a field is "${task.NAME}" by default.
        task: dataclass of a task.
    """
    names = [field.name for field in fields(model) if field.default == f"${{task.{field.name}}}"]
    return {name: getattr(task, name) for name in names}
