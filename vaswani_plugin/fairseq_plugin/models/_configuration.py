"""Reading of configurations, shared by all models."""

from copy import copy
from dataclasses import fields
from typing import Any

from omegaconf import DictConfig, open_dict


def completed(cfg: DictConfig, kind: type) -> DictConfig:
    """A configuration with defaults for missing fields, such as fields newer than its checkpoint.

    fairseq itself does this only for a model that is named by its own name, not by an `--arch`.

    Args:
        cfg: as the command line or a checkpoint gives it, or the dataclass itself.
        kind: the dataclass of the model.

    Returns:
        `cfg` itself if it is a `kind`, else a completed copy.
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
    """The fields that a model takes from its task, with the task's defaults.

    Args:
        model: dataclass of a model; such a field is "${task.NAME}" by default.
        task: dataclass of a task.
    """
    names = [field.name for field in fields(model) if field.default == f"${{task.{field.name}}}"]
    return {name: getattr(task, name) for name in names}
