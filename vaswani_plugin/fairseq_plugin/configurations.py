"""`model/configuration.py` as fairseq's dataclasses, whose choices are its own, for its parser."""

import enum
import math
from collections.abc import Callable
from dataclasses import field, fields, make_dataclass
from functools import cache
from typing import Any, Optional, TypeVar, get_type_hints

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from omegaconf import II

from vaswani_plugin.errors import UserError
from vaswani_plugin.model.configuration import Checkpointed, Configuration, flag
from vaswani_plugin.model.families import Family

Chosen = TypeVar("Chosen", bound=Checkpointed)
OF_A_TEXT = {
    "tokens_per_sample": int,
    "add_bos_token": bool,
    "max_target_positions": Optional[int],  # noqa: UP045 -- fairseq's parser reads no other
}
"""What a language model's dataclass takes from its task."""


choice_type = cache(lambda words: ChoiceEnum(list(words)))


def fairseq_dataclass(family: Family, model: type) -> type[FairseqDataclass]:
    """Derive fairseq's dataclass of a configuration, for the attribute `Config` of a model."""
    configuration = family.configuration
    hints, made = get_type_hints(configuration), []
    of_task = dict(OF_A_TEXT) if family.writes_texts and "max_target_positions" in hints else {}
    for each in fields(configuration):
        if each.name in family.without or each.name in of_task:
            continue
        if each.metadata.get("of_task"):
            of_task[each.name] = hints[each.name]
            continue
        choices = each.metadata["choices"]
        hint = choice_type(choices) if choices else hints[each.name]
        if hint == int | None:
            hint = Optional[int]  # noqa: UP045
        shown = field(default=each.default, metadata={"help": each.metadata["help"]})
        made.append((each.name, hint, shown))
    made += [(n, hint, field(default=II(f"task.{n}"))) for n, hint in of_task.items()]
    names = {"__doc__": configuration.__doc__, "__module__": model.__module__}
    names["__qualname__"] = f"{model.__qualname__}.Config"
    return make_dataclass("Config", made, bases=(FairseqDataclass,), namespace=names)


SETTINGS: dict[str, tuple[Callable[[float], bool], str]] = {
    "at least 1": (
        lambda value: 1 <= value < math.inf,
        "d_model d_hidden d_ff units layers encoder_layers decoder_layers heads d_k d_v"
        " max_source_positions max_target_positions max_nonfinite_updates constant_epochs",
    ),
    "a number from 0": (
        lambda value: 0 <= value < math.inf,
        "attention_window layer_norm_eps adam_eps weight_decay warmup_updates real_tokens",
    ),
    "from 0 to below 1": (
        lambda value: 0 <= value < 1,
        "dropout attention_dropout activation_dropout hidden_dropout input_dropout word_dropout"
        " weight_dropout",
    ),
    "a number above 0": (lambda value: 0 < value < math.inf, "lr_factor halving_epochs"),
}
"""What our settings must be: a test, and the names of the settings."""


def check_settings(settings: Any) -> None:
    """Raise a `UserError` if an attribute of our or fairseq's configuration is out of range."""
    for text, (holds, names) in SETTINGS.items():
        for name in names.split():
            value = getattr(settings, name, None)
            if isinstance(value, (int, float)) and not holds(value):
                raise UserError(f"{flag(name)} {value}: must be {text}")
    halves = isinstance(settings, Configuration) and settings.positions != "learned"
    halves |= hasattr(settings, "d_hidden") or getattr(settings, "attention", "none") != "none"
    if halves and settings.d_model % 2:
        raise UserError(f"--d-model {settings.d_model}: must be even (sinusoids, two directions)")


def configuration_of(cfg: Any, configuration: type[Chosen], **others: Any) -> Chosen:
    """Read our configuration from fairseq's, which the command line or a checkpoint gives.

    Missing fields, such as fields newer than the checkpoint, get their defaults; `others` replace
    those that are there. A `UserError` names a value that is out of range.
    """
    known = cfg.keys() if hasattr(cfg, "keys") else vars(cfg)
    names = (field.name for field in fields(configuration) if field.name in known)
    values = {name: getattr(cfg, name) for name in names} | others
    plain = {n: str(v) if isinstance(v, enum.Enum) else v for n, v in values.items()}
    made = configuration(**plain)
    check_settings(made)
    return made
