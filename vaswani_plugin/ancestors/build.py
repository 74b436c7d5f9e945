"""Builds the models before and beside the Transformer: configuration in, modules out."""

from functools import partial
from typing import Any

from torch import nn

from vaswani_plugin.ancestors import families, recurrent
from vaswani_plugin.ancestors.families import AttentionLSTMConfiguration, Seq2SeqConfiguration
from vaswani_plugin.ancestors.one_layer import OneLayer, OneLayerLanguageModel
from vaswani_plugin.ancestors.recurrent_language_model import Dropouts, RecurrentLanguageModel
from vaswani_plugin.errors import UserError
from vaswani_plugin.model.build import SizedDictionary, shared_embeddings
from vaswani_plugin.modules.embedding import Embedding, SinusoidalPositions

ATTENTIONS: dict[str, Any] = {
    "dot": recurrent.DotAttention,
    "scaled-dot": partial(recurrent.DotAttention, scaled=True),
    "additive": recurrent.AdditiveAttention,
    "mean": recurrent.MeanContext,
}
"""Attention by the value of --attention; with "none" the decoder has the final states only."""


def build_one_layer(
    cfg: families.OneLayerConfiguration,
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
    cfg: families.RecurrentLanguageModelConfiguration,
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
    rows, padding_idx = len(dictionary), dictionary.pad()
    return kind(rows, padding_idx, cfg.d_model, cfg.units, cfg.layers, dropouts)


def build_recurrent(
    cfg: families.RecurrentConfiguration,
    source: SizedDictionary,
    target: SizedDictionary,
    encoder: type[recurrent.SourceReader] = recurrent.SourceReader,
    decoder: type[recurrent.TargetReader] = recurrent.TargetReader,
) -> recurrent.RecurrentEncoderDecoder:
    """Build the LSTMs of Sutskever et al. (2014), or those with attention to the source."""

    def embedding(dictionary: SizedDictionary) -> nn.Embedding:
        return nn.Embedding(len(dictionary), cfg.d_model, dictionary.pad())

    tables = shared_embeddings(cfg.share_embeddings, source, target, embedding)
    of_source, of_target, projection = tables
    width, layers, dropout = cfg.d_model, cfg.layers, cfg.dropout
    if isinstance(cfg, AttentionLSTMConfiguration):
        if cfg.attention == "none" and cfg.input_feeding:
            raise UserError("--input-feeding feeds attention back; --attention none has none")
        attention = ATTENTIONS[cfg.attention](width) if cfg.attention != "none" else None
        reader = recurrent.RecurrentEncoder(width, layers, dropout, both_ways=True)
        writer = recurrent.RecurrentDecoder(width, layers, dropout, attention, cfg.input_feeding)
    else:
        assert isinstance(cfg, Seq2SeqConfiguration)
        reader = recurrent.RecurrentEncoder(
            width, layers, dropout, reverse=not cfg.no_reverse_source
        )
        writer = recurrent.RecurrentDecoder(width, layers, dropout)
    return recurrent.RecurrentEncoderDecoder(
        encoder(of_source, reader, dropout),
        decoder(of_target, projection, writer, dropout),
        longest=(cfg.max_source_positions, cfg.max_target_positions),
    )
