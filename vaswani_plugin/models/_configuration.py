"""What models read off a configuration alike."""

from collections.abc import Callable
from copy import copy
from dataclasses import fields
from typing import Any

from fairseq.data import Dictionary
from omegaconf import DictConfig, open_dict
from torch import nn

from vaswani_plugin.errors import UserError


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


def shared_embeddings(
    share: str, source: Dictionary, target: Dictionary, make: Callable[[Dictionary], nn.Embedding]
) -> tuple[nn.Embedding, nn.Embedding, nn.Embedding]:
    """The matrices that embed source and target and that project (section 3.4).

    Args:
        share: "all" are one, "decoder": the target's two are, "none".
        source: dictionary.
        target: dictionary.
        make: a matrix V x D of a dictionary.

    Raises:
        UserError: when one matrix is to serve dictionaries that differ.
    """
    if share == "all" and source != target:
        raise UserError(
            "the source and target dictionaries differ, so one matrix can't serve both; "
            "binarize with --joined-dictionary, or give --share-embeddings decoder"
        )
    of_target = make(target)
    of_source = of_target if share == "all" else make(source)
    projection = make(target) if share == "none" else of_target
    return of_source, of_target, projection
