"""Flags through fairseq's own parsers, with the plugin as `--user-dir`."""

import warnings
from argparse import Namespace
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig, OmegaConf

import vaswani_plugin
from tests.conftest import PLUGIN

vaswani_plugin.register()


def parsed(*flags: str, make_parser: Callable = options.get_training_parser) -> Namespace:
    """What fairseq's parser of training reads, without hydra, which takes half a second."""
    # "unused" stands where the data folder does; the parsers don't look into it.
    return options.parse_args_and_arch(make_parser(), ["unused", "--user-dir", str(PLUGIN), *flags])


def _parse(make_parser: Callable, flags: tuple[str, ...]) -> DictConfig:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fairseq's noise; what the plugin silences is tested apart
        return convert_namespace_to_omegaconf(parsed(*flags, make_parser=make_parser))


def model_config(*flags: str) -> DictConfig:
    """The model's part of `training_config`, without hydra."""
    arguments = parsed(*flags)
    name = ARCH_MODEL_NAME_REGISTRY[arguments.arch]
    model = MODEL_DATACLASS_REGISTRY[name].from_namespace(arguments)
    model._name = name
    return OmegaConf.structured(model)


@cache
def training_config(*flags: str) -> DictConfig:
    """What fairseq-train makes of the flags; kept (hydra takes a second), so don't change it."""
    return _parse(options.get_training_parser, flags)


def checkpoint_of(cfg: DictConfig, task: FairseqTask, model: torch.nn.Module) -> dict[str, Any]:
    """What fairseq-train saves of a model."""
    values = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    state = {"args": None, "cfg": values, "model": model.state_dict(), "extra_state": {}}
    state |= {"task_state": task.state_dict(), "last_optimizer_state": None}
    return state | {"optimizer_history": [{"lr_scheduler_state": {}, "num_updates": 1}]}


def generation_config(*flags: str) -> DictConfig:
    """What fairseq-generate makes of the flags."""
    return _parse(options.get_generation_parser, flags)
