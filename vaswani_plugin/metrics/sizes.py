"""The sizes that determine a model's cost, from its configuration."""

from types import SimpleNamespace
from typing import Any

from vaswani_plugin.metrics.ancestor_multiply_adds import (
    RecurrentLanguageModelSizes,
    RecurrentSizes,
)
from vaswani_plugin.metrics.multiply_adds import OneLayerSizes, Sizes, TransformerSizes
from vaswani_plugin.model.architectures import Architecture, Family
from vaswani_plugin.model.configuration import head_sizes


def sizes_of(cfg: Any, vocabulary: int) -> Sizes | None:
    """The sizes of a configuration of ours; None where its multiply-adds can't be counted.

    Args:
        cfg: configuration of vaswani_transformer, of vaswani_lm (without encoder layers), of the
            one-layer model, of a recurrent model (of language or of translation), or another one
            with the same fields.
        vocabulary: rows of the projection.
    """
    if hasattr(cfg, "units"):
        return RecurrentLanguageModelSizes(cfg.d_model, cfg.units, cfg.layers, vocabulary)
    if hasattr(cfg, "layers") and hasattr(cfg, "d_model"):
        feeding = getattr(cfg, "input_feeding", None)  # only with a Bi-LSTM
        both_ways = feeding is not None
        kind = (
            str(getattr(cfg, "attention", "dot")).removeprefix("scaled-") if both_ways else "none"
        )
        sizes = cfg.d_model, cfg.layers, vocabulary
        return RecurrentSizes(*sizes, both_ways, kind, bool(feeding))
    if hasattr(cfg, "d_hidden"):
        projections = not getattr(cfg, "no_projections", False)
        return OneLayerSizes(cfg.d_model, cfg.d_hidden, cfg.d_ff, vocabulary, projections)
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
        getattr(cfg, "attention_window", 0),
    )


def sizes_of_row(family: Family, row: Architecture, vocabulary: int) -> Sizes | None:
    """The sizes of a named architecture; None where its multiply-adds can't be counted.

    Args:
        family: of the row.
        row: the architecture.
        vocabulary: rows of the projection.
    """
    return sizes_of(SimpleNamespace(**family.base | row.changes), vocabulary)
