"""Models, batches and optimizers on torch's `meta` device, which raises where a GPU would wait.

`launches_only` also refuses what `meta` lets pass: copies from the host while the step runs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY, FairseqLanguageModel
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY, FairseqTask
from model_factory import make_dictionary
from omegaconf import OmegaConf
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from tree_models import make_dictionaries

from vaswani_plugin.fairseq_plugin.criterion import VaswaniLabelSmoothing
from vaswani_plugin.fairseq_plugin.optimizer import VaswaniAdam, VaswaniAdamConfig
from vaswani_plugin.model.architectures import Architecture
from vaswani_plugin.model.families import Family, families

META = torch.device("meta")
ROWS = {row.name: (family, row) for family in families() for row in family.rows}
"""Every architecture that the plugin registers, by name."""
LAYERS = ("encoder_layers", "decoder_layers", "layers")
RECURRENT = {"vaswani_seq2seq_lstm", "vaswani_attention_lstm"}
HAVE_SOURCES = {"vaswani_transformer", *RECURRENT}


def _kinds() -> list[str]:
    kinds: dict[tuple, str] = {}
    for name, (family, row) in ROWS.items():
        values = sorted((family.base | row.changes).items())
        same = ((k, v == 0 if type(v) in (int, float) else v) for k, v in values)
        kinds.setdefault((family.title, *same), name)
    return list(kinds.values())


KINDS = _kinds()
"""One of all rows that differ in sizes alone."""


def shallow(family: Family) -> dict[str, int]:
    """Changes that leave two layers to a model: the others launch the same once more."""
    return {key: 2 for key in LAYERS if key in family.base}


class CopyBetweenDevices(AssertionError):
    """A tensor of some size went from one device to another."""


class _LaunchesOnly(TorchDispatchMode):
    """Refuses copies between devices; a lone number of the host is an argument of a kernel."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if torch.is_tensor(result):
            for given in args:
                if torch.is_tensor(given) and given.dim() and given.device != result.device:
                    raise CopyBetweenDevices(f"{function}: {given.device} -> {result.device}")
        return result


@contextmanager
def launches_only() -> Iterator[None]:
    """Fail where the host would wait for the device, or the device for the host."""
    with _LaunchesOnly():
        yield


@contextmanager
def largest_tensor() -> Iterator[Callable[[], int]]:
    """Yields a function that says how many elements the largest tensor had that was made."""

    class Sizes(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if torch.is_tensor(result):
                self.largest = max(self.largest, result.numel())
            return result

    with Sizes() as sizes:
        yield lambda: sizes.largest


def dictionaries_of(family: Family) -> tuple[Dictionary, Dictionary]:
    """Of source and target: one, except that a parser's differ."""
    if family.task == "vaswani_parsing":
        return make_dictionaries(labelled=True)
    dictionary = make_dictionary(23)
    return dictionary, dictionary


def make_meta_task(family: Family, **changes: Any) -> FairseqTask:
    """The real task of a family."""
    source, target = dictionaries_of(family)
    cfg = OmegaConf.structured(TASK_DATACLASS_REGISTRY[family.task](**changes))
    if family.task == "vaswani_language_modeling":
        return TASK_REGISTRY[family.task](cfg, target)
    return TASK_REGISTRY[family.task](cfg, source, target)


def make_meta_model(
    family: Family,
    row: Architecture,
    task: FairseqTask,
    device: torch.device = META,
    **changes: Any,
) -> torch.nn.Module:
    """A model of the row's size, moved to a device as fairseq moves models to a GPU."""
    config = MODEL_DATACLASS_REGISTRY[family.model]
    task_config = TASK_DATACLASS_REGISTRY[family.task]
    names = [each.name for each in fields(config) if each.default == f"${{task.{each.name}}}"]
    of_task = {name: getattr(task_config, name) for name in names}
    if "tokens_per_sample" in of_task:
        of_task["tokens_per_sample"] = 64
    cfg = OmegaConf.structured(config(**{**of_task, **row.changes, **changes}))
    with torch.device(META) if device == META else nullcontext():  # no time for initial values
        model = MODEL_REGISTRY[family.model].build_model(cfg, task)
    return model.to(device)


def make_meta_sample(
    model: torch.nn.Module,
    sentences: int = 3,
    source: int = 7,
    target: int = 5,
    known_lengths: list[int] | None = None,
) -> dict[str, Any]:
    """fairseq's batch after it was moved to the device: B, S, T, and what the host counted of S."""

    def tokens(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.long, device=META)

    inputs = {"src_tokens": tokens(sentences, source), "src_lengths": tokens(sentences)}
    if isinstance(model, FairseqLanguageModel):
        target = source
    else:
        inputs["prev_output_tokens"] = tokens(sentences, target)
    counted = {} if known_lengths is None else {"known_lengths": np.array(known_lengths)}
    return counted | {
        "id": tokens(sentences),
        "nsentences": sentences,
        "ntokens": sentences * target - 1,  # counted by the host, when it makes the batch
        "net_input": inputs,
        "target": tokens(sentences, target),
    }


def make_criterion(task: FairseqTask, **changes: Any) -> VaswaniLabelSmoothing:
    """The plugin's criterion with the paper's smoothing."""
    settings = {"sentence_avg": False, "label_smoothing": 0.1}
    settings |= {"report_accuracy": True, "unfused_loss": False}
    return VaswaniLabelSmoothing(task, **{**settings, **changes})


def make_optimizer(model: torch.nn.Module) -> VaswaniAdam:
    """The plugin's optimizer, over all parameters."""
    return VaswaniAdam(VaswaniAdamConfig(lr=[1e-3]), list(model.parameters()))


def train_step(task: FairseqTask, model: torch.nn.Module, sample: dict[str, Any]) -> Tensor:
    """One update by the task's own step and the optimizer, where nothing may wait: the loss."""
    criterion, optimizer = make_criterion(task), make_optimizer(model)
    with launches_only():
        loss, sample_size, _ = task.train_step(sample, model, criterion, optimizer, 0)
        optimizer.multiply_grads(1 / sample_size)
        optimizer.clip_grad_norm(0.5)
        optimizer.step()
        optimizer.zero_grad()
    return loss
