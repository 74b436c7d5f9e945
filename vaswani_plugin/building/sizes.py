"""The numbers of a Transformer, and which of them make no model."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from vaswani_plugin.errors import UserError

POSITIONS = ("sinusoidal", "sinusoidal-fairseq", "learned")
SHARING = ("all", "decoder", "none")
RECURRENT_ATTENTIONS = ("dot", "scaled-dot", "additive", "mean", "none")
ATTENTION_SCALES = ("sqrt", "none")
_CHOICES = {
    "positions": POSITIONS,
    "share_embeddings": SHARING,
    "attention_scale": ATTENTION_SCALES,
}
_KINDS = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}


@dataclass(frozen=True)
class TransformerSizes:
    """What the modules of a translation model or a parser are built from.

    The names and defaults are those of `configurations.VaswaniTransformerConfig`, which explains
    them; what matters in training alone is left out.
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
        """The sizes in a checkpoint's configuration; defaults for what came after it.

        Args:
            model: the model's part of it.
            task: the task's, which gives the positions where the model's doesn't.

        Raises:
            UserError: a value is of another kind.
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
    """Refuse what no checkpoint of ours holds."""
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
    """Refuse widths and numbers of layers that make no model.

    Args:
        cfg: `TransformerSizes`, or a configuration with the same names.

    Raises:
        UserError: when a size is below 1, d_model odd for sinusoids, or the window negative; names
            the flag.
    """
    for name in ("d_model", "heads", "d_ff", "encoder_layers", "decoder_layers"):
        if getattr(cfg, name, 1) < 1:  # a language model has no encoder
            raise UserError(f"{flag(name)} is {getattr(cfg, name)}; it must be at least 1")
    least = 4 if cfg.positions == "sinusoidal-fairseq" else 2
    if cfg.positions != "learned" and (cfg.d_model % 2 or cfg.d_model < least):
        raise UserError(
            f"--d-model is {cfg.d_model}; sinusoidal positions need an even width, at least"
            f" {least}: change it, or give --positions learned"
        )
    if cfg.attention_window < 0:
        raise UserError(f"--attention-window is {cfg.attention_window}; 0 means no restriction")


def flag(name: str) -> str:
    """The flag of a field."""
    return "--" + name.replace("_", "-")
