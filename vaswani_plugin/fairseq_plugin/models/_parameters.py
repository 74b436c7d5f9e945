"""The number of parameters of each named architecture."""

from dataclasses import fields
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import OmegaConf

from vaswani_plugin.model.architectures import Architecture, Family


def values_of_the_task(model: type, task: type) -> dict[str, Any]:
    """The fields that a model takes from its task, with the task's defaults.

    Args:
        model: dataclass of a model; such a field is "${task.NAME}" by default.
        task: dataclass of a task.
    """
    names = [field.name for field in fields(model) if field.default == f"${{task.{field.name}}}"]
    return {name: getattr(task, name) for name in names}


@lru_cache
def _dictionary(rows: int) -> Dictionary:
    dictionary = Dictionary()
    for number in range(rows - len(dictionary)):
        dictionary.add_symbol(str(number))
    return dictionary


def count_parameters(family: Family, row: Architecture, words: tuple[int, int]) -> int:
    """Count the parameters of a row's model; a shared matrix counts once.

    Args:
        family: of the row.
        row: an architecture.
        words: rows of the source's and the target's embedding matrix, at least 4 each. If they are
            equal, source and target share one dictionary; a language model uses the target's.

    Returns:
        The count; no memory is allocated for the weights.
    """
    target = _dictionary(words[1])
    source = target if words[0] == words[1] else _dictionary(words[0])
    task = SimpleNamespace(
        source_dictionary=source,
        target_dictionary=target,
        ends_word=torch.zeros(len(source), dtype=torch.bool, device="cpu"),
        is_word=torch.zeros(len(target), dtype=torch.bool, device="cpu"),
    )
    config = MODEL_DATACLASS_REGISTRY[family.model]
    of_task = values_of_the_task(config, TASK_DATACLASS_REGISTRY[family.task])
    cfg = OmegaConf.structured(config(**of_task, **row.changes))
    with torch.device("meta"):
        model = MODEL_REGISTRY[family.model].build_model(cfg, task)
    return sum(parameter.numel() for parameter in model.parameters())
