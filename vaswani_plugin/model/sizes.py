"""The sizes of a Transformer, and their checks."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from vaswani_plugin.errors import UserError

POSITIONS = ("sinusoidal", "sinusoidal-fairseq", "learned")
SHARING = ("all", "decoder", "none")
RECURRENT_ATTENTIONS = ("dot", "scaled-dot", "additive", "mean", "none")
ATTENTION_SCALES = ("sqrt", "none")
_SIZES = (
    *("d_model", "heads", "d_ff", "encoder_layers", "decoder_layers"),
    *("max_source_positions", "max_target_positions"),
)
_CHOICES = {
    "positions": POSITIONS,
    "share_embeddings": SHARING,
    "attention_scale": ATTENTION_SCALES,
}
_KINDS = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}


@dataclass(frozen=True)
class TransformerSizes:
    """The sizes from which the modules of a translation model or a parser are built.

    The names and defaults are those of `configurations.VaswaniTransformerConfig`, which explains
    them. Options that matter only in training are left out.
    """

    d_model: int = 512
    d_ff: int = 2048
    encoder_layers: int = 6
    decoder_layers: int = 6
    heads: int = 8
    d_k: int | None = None
    d_v: int | None = None
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    positions: str = "sinusoidal"
    share_embeddings: str = "all"
    attention_window: int = 0
    attention_scale: str = "sqrt"
    next_word: bool = False
    layer_norm_eps: float = 1e-6
    max_source_positions: int = 1024
    max_target_positions: int = 1024

    @classmethod
    def from_configuration(
        cls, model: Mapping[str, Any], task: Mapping[str, Any]
    ) -> "TransformerSizes":
        """Read the sizes from a checkpoint's configuration. Missing ones get their defaults.

        Args:
            model: the model's part of the configuration.
            task: the task's part; gives the numbers of positions where the model's part doesn't.

        Raises:
            UserError: a value has a wrong type, or is none of the choices.
        """
        values = {}
        for name in ("max_source_positions", "max_target_positions"):
            if name in task:
                values[name] = task[name]
        names = {field.name for field in fields(cls)}
        values |= {name: value for name, value in model.items() if name in names}
        for name, value in values.items():
            _check_kind(name, value)
        return cls(**values)


def _check_kind(name: str, value: Any) -> None:
    """Check the type of a value, and that it is one of the choices."""
    default = getattr(TransformerSizes, name)
    if default is None and value is None:
        return
    kind = int if default is None else type(default)
    is_kind = type(value) is kind or (kind is float and type(value) is int)
    choices = _CHOICES.get(name)
    if not is_kind or (choices is not None and value not in choices):
        wanted = f"one of {', '.join(choices)}" if choices else _KINDS[kind]
        raise UserError(f"{flag(name)} is {value!r} in the model's configuration; must be {wanted}")


def check_sizes(cfg: Any) -> None:
    """Check that a model can be built with these sizes.

    Args:
        cfg: `TransformerSizes`, or a configuration with the same names.

    Raises:
        UserError: when a size is below 1, d_model is odd with sinusoids, a dropout is out of range,
            or the window or LayerNorm's epsilon is negative; the message names the flag.
    """
    for name in _SIZES:
        size = getattr(cfg, name, None)  # a language model lacks some
        if size is not None and size < 1:
            raise UserError(f"{flag(name)} is {size}; it must be at least 1")
    least = 4 if cfg.positions == "sinusoidal-fairseq" else 2
    if cfg.positions != "learned" and (cfg.d_model % 2 or cfg.d_model < least):
        raise UserError(
            f"--d-model is {cfg.d_model}; sinusoidal positions need an even width, at least"
            f" {least}: change it, or give --positions learned"
        )
    if cfg.attention_window < 0:
        raise UserError(f"--attention-window is {cfg.attention_window}; 0 means no restriction")
    if not 0 <= cfg.layer_norm_eps < math.inf:
        raise UserError(f"--layer-norm-eps is {cfg.layer_norm_eps}; it must be a number from 0")
    check_dropouts(cfg, ("dropout", "attention_dropout", "activation_dropout"))


def check_dropouts(cfg: Any, names: Iterable[str]) -> None:
    """Check probabilities of dropping.

    Args:
        cfg: a configuration of any model.
        names: of its dropouts.

    Raises:
        UserError: one is not from 0 to below 1; the message names the flag.
    """
    for name in names:
        if not 0 <= getattr(cfg, name) < 1:  # NaN, too
            raise UserError(f"{flag(name)} is {getattr(cfg, name)}; it must be from 0 to below 1")


def flag(name: str) -> str:
    """Return the command-line flag of a configuration's field."""
    return "--" + name.replace("_", "-")
