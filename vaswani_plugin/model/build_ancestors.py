"""Builds the models before and beside the Transformer, and counts the parameters of any model."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.model.ancestors import (
    AttentionLSTMConfiguration,
    OneLayerConfiguration,
    RecurrentConfiguration,
    RecurrentLanguageModelConfiguration,
    Seq2SeqConfiguration,
)
from vaswani_plugin.model.build import (
    SizedDictionary,
    WithoutInitialWeights,
    build_named,
    shared_embeddings,
)
from vaswani_plugin.model.configuration import configuration_class
from vaswani_plugin.modules.embedding import Embedding, SinusoidalPositions
from vaswani_plugin.modules.one_layer import OneLayer, OneLayerLanguageModel
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
    """Build the language model of the lecture notes."""
    if cfg.no_projections and cfg.d_hidden != cfg.d_model:
        raise UserError(
            f"--no-projections averages the words' vectors: --d-hidden {cfg.d_hidden} must be"
            f" --d-model {cfg.d_model}"
        )
    embedding = Embedding(len(dictionary), cfg.d_model, dictionary.pad())
    table = SinusoidalPositions(cfg.max_target_positions, cfg.d_model)
    layer = OneLayer(cfg.d_model, cfg.d_hidden, cfg.d_ff, projections=not cfg.no_projections)
    return kind(embedding, table, layer, cfg.dropout)


def build_recurrent_language_model(
    cfg: RecurrentLanguageModelConfiguration,
    dictionary: SizedDictionary,
    kind: type[RecurrentLanguageModel] = RecurrentLanguageModel,
) -> RecurrentLanguageModel:
    """Build the LSTM language model."""
    dropouts = Dropouts(
        outputs=cfg.dropout,
        hidden=cfg.hidden_dropout,
        inputs=cfg.input_dropout,
        words=cfg.word_dropout,
        weights=cfg.weight_dropout,
    )
    sizes = cfg.d_model, cfg.units, cfg.layers
    return kind(len(dictionary), dictionary.pad(), *sizes, dropouts)


def build_recurrent(
    cfg: RecurrentConfiguration,
    source: SizedDictionary,
    target: SizedDictionary,
    encoder: type[SourceReader] = SourceReader,
    decoder: type[TargetReader] = TargetReader,
) -> RecurrentEncoderDecoder:
    """Build the LSTMs of Sutskever et al. (2014), or those with attention to the source."""

    def embedding(dictionary: SizedDictionary) -> nn.Embedding:
        return nn.Embedding(len(dictionary), cfg.d_model, dictionary.pad())

    of_source, *of_target = shared_embeddings(cfg.share_embeddings, source, target, embedding)
    sizes = cfg.d_model, cfg.layers, cfg.dropout
    if isinstance(cfg, AttentionLSTMConfiguration):
        if cfg.attention == "none" and cfg.input_feeding:
            raise UserError("--input-feeding feeds attention back; --attention none has none")
        attention = ATTENTIONS[cfg.attention](cfg.d_model) if cfg.attention != "none" else None
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
    """Build a model of which only the sizes of its dictionaries are known; see `build_named`.

    `words` are the rows of the source's and the target's embedding. Equal ones are one dictionary.
    """
    ends, places = (torch.zeros(rows, dtype=torch.bool) for rows in words)
    return build_named(model, cfg, *map(Rows, words), (ends, places))


def count_parameters(model: str, changes: Mapping[str, Any], words: tuple[int, int]) -> int:
    """Count the parameters of a model; a shared matrix counts once. No memory is allocated.

    `changes` are the values of its configuration that are not the defaults; see `build_sizes`.
    """
    with torch.device("meta"), WithoutInitialWeights():
        built = build_sizes(model, configuration_class(model)(**changes), words)
    return sum(parameter.numel() for parameter in built.parameters())
