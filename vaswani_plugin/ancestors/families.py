"""Sizes, rows and records of the models before and beside the Transformer; imports no torch."""

from dataclasses import dataclass, replace

from vaswani_plugin.model.architectures import Architecture
from vaswani_plugin.model.configuration import SHARING, Checkpointed, Configuration, of_task, option
from vaswani_plugin.model.families import (
    CLIPPING,
    LANGUAGE_MODELING,
    SMOOTHING,
    TRANSLATION,
    Family,
)


@dataclass(frozen=True)
class OneLayerConfiguration(Checkpointed):
    """The one-layer language model of the lecture notes; the notes give only T = 512."""

    d_model: int = option(512, "d_embedding")
    d_hidden: int = option(512, "width of queries, keys and values")
    d_ff: int = option(2048, "d_1, columns of W_1")
    dropout: float = option(0.0, "on embeddings + positions and on h (none in the formulas)")
    no_projections: bool = option(
        False,
        "compare and average the words' own vectors, score(x_i, x_j) = x_i . x_j: no queries, keys "
        "and values; --d-hidden must be --d-model",
    )
    max_target_positions: int = of_task(512)


@dataclass(frozen=True)
class RecurrentLanguageModelConfiguration(Checkpointed):
    """The LSTM language model of Merity et al. (2017) on the Penn Treebank."""

    d_model: int = option(400, "width of the embeddings, and units of the last layer")
    units: int = option(1150, "units of the layers before the last one")
    layers: int = option(3, "LSTM layers")
    dropout: float = option(0.4, "on the last layer's output, one mask for all steps")
    hidden_dropout: float = option(0.25, "on the other layers' outputs, one mask for all steps")
    input_dropout: float = option(0.4, "on embedded words, one mask for all steps")
    word_dropout: float = option(0.1, "of whole words, wherever they stand in the batch")
    weight_dropout: float = option(0.5, "of the weights from a layer's state to its next state")


@dataclass(frozen=True)
class RecurrentConfiguration(Checkpointed):
    """What both recurrent encoder-decoders have; the defaults are of Sutskever et al. (2014)."""

    d_model: int = option(1000, "units of each LSTM layer, and width of the embeddings")
    layers: int = option(4, "layers of the encoder and of the decoder")
    dropout: float = option(0.0, "on embeddings, between layers and before the projection")
    share_embeddings: str = option(
        "none", Configuration.__dataclass_fields__["share_embeddings"].metadata["help"], SHARING
    )
    max_source_positions: int = of_task(1024)
    max_target_positions: int = of_task(1024)


@dataclass(frozen=True)
class Seq2SeqConfiguration(RecurrentConfiguration):
    """Sutskever et al. (2014): 4 layers of 1,000 units, the source read backwards."""

    no_reverse_source: bool = option(False, "read the source forwards (the paper: backwards)")


@dataclass(frozen=True)
class AttentionLSTMConfiguration(RecurrentConfiguration):
    """A Bi-LSTM encoder (half of the units for each direction) and a decoder with attention."""

    attention: str = option(
        "dot",
        "how the decoder sees the source: by scores s . h (dot, Luong et al. 2015), s . h / sqrt(d)"
        " (scaled-dot) or v . tanh(W s + U h) (additive, Bahdanau et al. 2014), by the mean of its "
        "states at every step (mean), or not but for the states in which it ends (none)",
        ("dot", "scaled-dot", "additive", "mean", "none"),
    )
    input_feeding: bool = option(
        False, "each step also reads the attention's output of the step before"
    )


ONE_LAYER_ROWS = (
    Architecture("vaswani_lm_one_layer", "lecture notes: no residuals, no LayerNorm"),
    Architecture(
        "vaswani_lm_one_layer_tiny",
        "ours, as wide as vaswani_lm_tiny",
        {"d_model": 128, "d_hidden": 128, "d_ff": 256},
    ),
)

LITTLE_DROPOUT = dict.fromkeys(("dropout", "hidden_dropout", "input_dropout"), 0.1)
LITTLE_DROPOUT |= {"word_dropout": 0.0, "weight_dropout": 0.1}
LSTM_LANGUAGE_MODEL_ROWS = (
    Architecture("vaswani_lm_lstm", "Merity et al. 2017, Penn Treebank"),
    Architecture(
        "vaswani_lm_lstm_tiny",
        "ours, beside vaswani_lm_tiny",
        {"d_model": 128, "units": 256, "layers": 2, **LITTLE_DROPOUT},
    ),
)

RECURRENT_TINY = {"d_model": 192, "layers": 2, "dropout": 0.1, "share_embeddings": "all"}
"""With 10,000 subwords, about as many parameters as vaswani_tiny."""

SEQ2SEQ_LSTM_ROWS = (
    Architecture("vaswani_seq2seq_lstm", "Sutskever et al. 2014", {}, 384, (160_000, 80_000)),
    Architecture("vaswani_seq2seq_lstm_tiny", "ours, beside vaswani_tiny", RECURRENT_TINY),
)
ATTENTION_LSTM_ROWS = (
    Architecture("vaswani_attention_lstm", "ours, after Luong et al. 2015"),
    Architecture("vaswani_attention_lstm_tiny", "ours, beside vaswani_tiny", RECURRENT_TINY),
)

_HERE = "vaswani_plugin.ancestors."
_TABLES, _BUILD = _HERE + "families:", _HERE + "build:"
_ADAPTERS, _FAIRSEQ = _HERE + "search_adapters:", _HERE + "fairseq_adapters"

ONE_LAYER = Family(
    "Language model of one layer",
    "vaswani_lm_one_layer",
    LANGUAGE_MODELING,
    OneLayerConfiguration,
    table=_TABLES + "ONE_LAYER_ROWS",
    builder=_BUILD + "build_one_layer",
    adapter=_ADAPTERS + "OneLayerTexts",
    registration=_FAIRSEQ,
)
LSTM_LANGUAGE_MODEL = Family(
    "Recurrent language model",
    "vaswani_lm_lstm",
    LANGUAGE_MODELING,
    RecurrentLanguageModelConfiguration,
    table=_TABLES + "LSTM_LANGUAGE_MODEL_ROWS",
    builder=_BUILD + "build_recurrent_language_model",
    adapter=_ADAPTERS + "RecurrentTexts",
    registration=_FAIRSEQ,
    defaults={CLIPPING: 0.25},  # Merity et al. (2017), section 5
)
# Neither Sutskever et al. (2014) nor Luong et al. (2015) smooth labels; Sutskever et al. limit the
# gradient's norm to 5.
SEQ2SEQ_LSTM = Family(
    "Sequence to sequence",
    "vaswani_seq2seq_lstm",
    TRANSLATION,
    Seq2SeqConfiguration,
    table=_TABLES + "SEQ2SEQ_LSTM_ROWS",
    builder=_BUILD + "build_recurrent",
    adapter=_ADAPTERS + "RecurrentSearched",
    registration=_FAIRSEQ,
    defaults={SMOOTHING: 0.0, CLIPPING: 5.0},
)
ATTENTION_LSTM = replace(
    SEQ2SEQ_LSTM,
    title="LSTM with attention",
    model="vaswani_attention_lstm",
    configuration=AttentionLSTMConfiguration,
    table=_TABLES + "ATTENTION_LSTM_ROWS",
)
