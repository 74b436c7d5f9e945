"""Builds the models before and beside the Transformer, and counts the parameters of any model."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from vaswani_plugin.errors import UserError, value_errors_as_user_errors
from vaswani_plugin.model.build import (
    SizedDictionary,
    WithoutInitialWeights,
    build_named,
    shared_embeddings,
)
from vaswani_plugin.model.configuration import (
    CONFIGURATIONS,
    AttentionLSTMConfiguration,
    OneLayerConfiguration,
    RecurrentConfiguration,
    RecurrentLanguageModelConfiguration,
    Seq2SeqConfiguration,
)
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.one_layer import OneLayer, OneLayerLanguageModel
from vaswani_plugin.modules.positions import SinusoidalPositions
from vaswani_plugin.modules.recurrent import (
    AdditiveAttention,
    DotAttention,
    MeanContext,
    RecurrentDecoder,
    RecurrentEncoder,
    RecurrentEncoderDecoder,
    SourceReader,
    TargetReader,
)
from vaswani_plugin.modules.recurrent_language_model import Dropouts, RecurrentLanguageModel

DROPOUTS = ("dropout", "hidden_dropout", "input_dropout", "word_dropout", "weight_dropout")
"""Fields of the LSTM language model's configuration, in the order of `Dropouts`."""
ATTENTIONS = {
    "dot": DotAttention,
    "scaled-dot": partial(DotAttention, scaled=True),
    "additive": AdditiveAttention,
    "mean": MeanContext,
}
"""Attention by the value of --attention; with "none" the decoder has the final states only."""


class Rows(int):
    """The size of a dictionary, in place of the dictionary."""

    def __len__(self) -> int:
        return self

    def pad(self) -> int:
        """fairseq's number of the padding symbol."""
        return 1

    def eos(self) -> int:
        """fairseq's number of the end of sentence."""
        return 2


def build_one_layer(
    cfg: OneLayerConfiguration,
    dictionary: SizedDictionary,
    kind: type[OneLayerLanguageModel] = OneLayerLanguageModel,
) -> OneLayerLanguageModel:
    """Build the language model of the lecture notes.

    Raises:
        UserError: sizes don't fit, or the dropout is out of range.
    """
    cfg.check_dropouts(("dropout",))
    embedding = Embedding(len(dictionary), cfg.d_model, dictionary.pad())
    with value_errors_as_user_errors():
        table = SinusoidalPositions(cfg.max_target_positions, cfg.d_model)
        layer = OneLayer(cfg.d_model, cfg.d_hidden, cfg.d_ff, projections=not cfg.no_projections)
    return kind(embedding, table, layer, cfg.dropout)


def build_recurrent_language_model(
    cfg: RecurrentLanguageModelConfiguration,
    dictionary: SizedDictionary,
    kind: type[RecurrentLanguageModel] = RecurrentLanguageModel,
) -> RecurrentLanguageModel:
    """Build the LSTM language model.

    Raises:
        UserError: a size or a dropout is out of range.
    """
    cfg.check_dropouts(DROPOUTS)
    dropouts = Dropouts(*(getattr(cfg, name) for name in DROPOUTS))
    with value_errors_as_user_errors():
        sizes = cfg.d_model, cfg.units, cfg.layers
        return kind(len(dictionary), dictionary.pad(), *sizes, dropouts)


def build_recurrent(
    cfg: RecurrentConfiguration,
    source: SizedDictionary,
    target: SizedDictionary,
    encoder: type[SourceReader] = SourceReader,
    decoder: type[TargetReader] = TargetReader,
) -> RecurrentEncoderDecoder:
    """Build the LSTMs of Sutskever et al. (2014), or those with attention to the source.

    Raises:
        UserError: a size or a dropout is out of range, all embeddings are to be shared and the
            dictionaries differ, --input-feeding without attention, or a width that can't be halved.
    """
    cfg.check()

    def embedding(dictionary: SizedDictionary) -> nn.Embedding:
        return nn.Embedding(len(dictionary), cfg.d_model, dictionary.pad())

    of_source, *of_target = shared_embeddings(cfg.share_embeddings, source, target, embedding)
    sizes = cfg.d_model, cfg.layers, cfg.dropout
    if isinstance(cfg, AttentionLSTMConfiguration):
        if cfg.attention == "none" and cfg.input_feeding:
            raise UserError("--input-feeding feeds attention back; --attention none has none")
        attention = ATTENTIONS[cfg.attention](cfg.d_model) if cfg.attention != "none" else None
        with value_errors_as_user_errors():
            reads = RecurrentEncoder(*sizes, both_ways=True)
        writes = RecurrentDecoder(*sizes, attention, cfg.input_feeding)
    else:
        assert isinstance(cfg, Seq2SeqConfiguration)
        reads = RecurrentEncoder(*sizes, reverse=not cfg.no_reverse_source)
        writes = RecurrentDecoder(*sizes)
    return RecurrentEncoderDecoder(
        encoder(of_source, reads, cfg.dropout), decoder(*of_target, writes, cfg.dropout)
    )


def build_sizes(model: str, cfg: Any, words: tuple[int, int]) -> Any:
    """Build a model without dictionaries, of which it has the sizes only.

    Args:
        model: its registered name.
        cfg: its configuration.
        words: rows of the source's and the target's embedding. If they are equal, both share one
            dictionary; a language model uses the target's.
    """
    ends, places = (torch.zeros(rows, dtype=torch.bool) for rows in words)
    return build_named(model, cfg, *map(Rows, words), (ends, places))


def count_parameters(model: str, changes: Mapping[str, Any], words: tuple[int, int]) -> int:
    """Count the parameters of a model; a shared matrix counts once. No memory is allocated.

    Args:
        model: its registered name.
        changes: values of its configuration that are not the defaults.
        words: as for `build_sizes`.
    """
    with torch.device("meta"), WithoutInitialWeights():
        built = build_sizes(model, CONFIGURATIONS[model](**changes), words)
    return sum(parameter.numel() for parameter in built.parameters())
