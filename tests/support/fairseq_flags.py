"""Flags through fairseq's own parsers, with the plugin as `--user-dir`."""

import warnings
from argparse import Namespace
from collections.abc import Callable
from functools import cache
from pathlib import Path

from fairseq import options
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from omegaconf import DictConfig

import vaswani_plugin

vaswani_plugin.register()

PLUGIN = Path(vaswani_plugin.__file__).parent


def _arguments(make_parser: Callable, flags: tuple[str, ...]) -> Namespace:
    # "unused" stands where the data folder does; the parsers don't look into it.
    arguments = ["unused", "--user-dir", str(PLUGIN), *flags]
    return options.parse_args_and_arch(make_parser(), arguments)


def _parse(make_parser: Callable, flags: tuple[str, ...]) -> DictConfig:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fairseq's noise; what the plugin silences is tested apart
        return convert_namespace_to_omegaconf(_arguments(make_parser, flags))


def model_config(*flags: str) -> FairseqDataclass:
    """The model's part of `training_config`, without hydra, which takes half a second."""
    arguments = _arguments(options.get_training_parser, flags)
    model = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arguments.arch]]
    return model.from_namespace(arguments)


@cache
def training_config(*flags: str) -> DictConfig:
    """What fairseq-train makes of the flags; kept (hydra takes a second), so don't change it."""
    return _parse(options.get_training_parser, flags)


def generation_config(*flags: str) -> DictConfig:
    """What fairseq-generate makes of the flags."""
    return _parse(options.get_generation_parser, flags)
