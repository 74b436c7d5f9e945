"""The sizes and options of a Transformer; the default of each field is the paper's base model.

`architectures.py` lists named departures from these defaults, `build.py` makes modules of them, and
`fairseq_plugin/configurations.py` makes flags of them. This file imports neither torch nor fairseq.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from vaswani_plugin.errors import UserError

SHARING = ("all", "decoder", "none")


def option(default: Any, help: str, choices: tuple[str, ...] = ()) -> Any:
    """Make a field of a configuration that is also a flag, with its help and possible words."""
    return field(default=default, metadata={"help": help, "choices": choices})


def of_task(default: Any) -> Any:
    """Make a field whose value fairseq's task has."""
    return field(default=default, metadata={"of_task": True})


@dataclass(frozen=True)
class Checkpointed:
    """A configuration that checkpoints hold; the base of all configurations."""

    @classmethod
    def from_checkpoint(cls, model: Mapping[str, Any], task: Mapping[str, Any]) -> Self:
        """Read the values from a checkpoint's configuration. Missing ones get their defaults.

        Args:
            model: the model's part of the configuration.
            task: the task's part; gives the numbers of positions where the model's part doesn't.

        Raises:
            UserError: a value is none of the choices, as in a checkpoint of a newer version.
        """
        values = {}
        for each in fields(cls):
            known = {**task, **model} if each.metadata.get("of_task") else model
            if each.name in known:
                values[each.name] = value = known[each.name]
                choices = each.metadata.get("choices")
                if choices and value not in choices:
                    where = f"{flag(each.name)} is {value!r} in the model's configuration"
                    raise UserError(f"{where}; must be one of {', '.join(choices)}")
        return cls(**values)


@dataclass(frozen=True)
class Configuration(Checkpointed):
    """A Transformer: translation model, parser or, by its decoder's part, language model.

    The defaults are the base model (Table 3, first line).
    """

    d_model: int = option(512, "width of the model")
    d_ff: int = option(2048, "width inside the feed-forward network")
    encoder_layers: int = option(6, "N of the encoder")
    decoder_layers: int = option(6, "N of the decoder")
    heads: int = option(8, "h, attention heads")
    d_k: int | None = option(None, "width of a head's queries and keys (d_model / heads)")
    d_v: int | None = option(None, "width of a head's values (d_model / heads)")
    dropout: float = option(0.1, "P_drop, on sub-layer outputs and embeddings + positions")
    attention_dropout: float = option(0.0, "dropout of attention weights (not in the paper)")
    activation_dropout: float = option(
        0.0, "dropout inside the feed-forward network (not in the paper)"
    )
    positions: str = option(
        "sinusoidal",
        "positional encoding: the paper's, fairseq's sinusoids, or learned",
        ("sinusoidal", "sinusoidal-fairseq", "learned"),
    )
    share_embeddings: str = option(
        "all",
        "one matrix for source, target and projection (all, the paper), for target and projection "
        "(decoder), or none shared",
        SHARING,
    )
    attention_window: int = option(
        0, "r of restricted self-attention (section 4); 0 attends everywhere"
    )
    attention_scale: str = option(
        "sqrt",
        "divide the scores by sqrt(d_k) (sqrt, the paper), or not (none: plain dot-product "
        "attention, section 3.2.1)",
        ("sqrt", "none"),
    )
    next_word: bool = option(
        False,
        "hand a parser's decoder the encoder's output for the word that it has to write next (not "
        "in the paper)",
    )
    norm: str = option(
        "post",
        "LayerNorm after each sub-layer (post, the paper), or before it and at the end of each "
        "stack (pre, tensor2tensor's later default)",
        ("post", "pre"),
    )
    layer_norm_eps: float = option(1e-6, "epsilon of LayerNorm (authors' code: 1e-6)")
    initial_weights: str = option(
        "normal",
        "initial weights, of which the paper says nothing: matrices from N(0, 0.02) (normal), each "
        "layer's own (own, fairseq's), or Xavier's for all linear maps (xavier, the authors' code)",
        ("normal", "own", "xavier"),
    )
    checkpoint_activations: bool = option(
        False,
        "keep each layer's input only and compute the rest again in the backward pass: less "
        "memory, more time",
    )
    compile: bool = option(
        False,
        "run the layers through torch.compile in training; starts about 20 s later (vaswani_tiny, "
        "one thread) and is meant for GPUs: on a CPU it is slower than without",
    )
    max_source_positions: int = of_task(1024)
    max_target_positions: int = of_task(1024)


def head_sizes(cfg: Any) -> tuple[int, int]:
    """Return d_k and d_v of a Transformer's configuration; None is d_model / heads (3.2.2).

    Raises:
        UserError: when the heads don't divide d_model, and d_k or d_v is not given.
    """
    if None in (cfg.d_k, cfg.d_v) and cfg.d_model % cfg.heads:
        raise UserError(
            f"--heads {cfg.heads} does not divide --d-model {cfg.d_model}; choose heads that do, or"
            " give --d-k and --d-v"
        )
    shared = cfg.d_model // cfg.heads
    return shared if cfg.d_k is None else cfg.d_k, shared if cfg.d_v is None else cfg.d_v


def flag(name: str) -> str:
    """Return the command-line flag of a configuration's field."""
    return "--" + name.replace("_", "-")
