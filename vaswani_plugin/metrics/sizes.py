"""The sizes that decide on a model's cost, read off its configuration."""

from types import SimpleNamespace
from typing import Any

from vaswani_plugin.architectures import Architecture, Family, head_sizes
from vaswani_plugin.metrics.ancestor_multiply_adds import RecurrentSizes
from vaswani_plugin.metrics.multiply_adds import Sizes, TransformerSizes


def sizes_of(cfg: Any, vocabulary: int) -> Sizes | None:
    """The sizes of a configuration of ours; None where its multiply-adds can't be counted.

    Args:
        cfg: of vaswani_transformer, of vaswani_lm (without encoder layers), of a recurrent model,
            or another with the same names.
        vocabulary: rows of the projection.
    """
    if hasattr(cfg, "layers") and hasattr(cfg, "d_model"):
        feeding = getattr(cfg, "input_feeding", None)  # only attention can be fed
        attention = feeding is not None
        return RecurrentSizes(cfg.d_model, cfg.layers, vocabulary, attention, bool(feeding))
    if not (hasattr(cfg, "heads") and hasattr(cfg, "d_ff")):
        return None
    d_k, d_v = head_sizes(cfg)
    return TransformerSizes(
        cfg.d_model,
        cfg.d_ff,
        getattr(cfg, "encoder_layers", 0),
        cfg.decoder_layers,
        cfg.heads,
        d_k,
        d_v,
        vocabulary,
        getattr(cfg, "next_word", False),
    )


def sizes_of_row(family: Family, row: Architecture, vocabulary: int) -> Sizes | None:
    """The sizes of a named architecture; None where its multiply-adds can't be counted.

    Args:
        family: of the row.
        row: the architecture.
        vocabulary: rows of the projection.
    """
    return sizes_of(SimpleNamespace(**family.base | row.changes), vocabulary)
