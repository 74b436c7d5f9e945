"""The configurations of the models, which fairseq turns into flags."""

from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from omegaconf import II

from vaswani_plugin.errors import UserError
from vaswani_plugin.model import sizes
from vaswani_plugin.model.sizes import check_dropouts, flag

POSITIONS = ChoiceEnum(list(sizes.POSITIONS))
SHARING = ChoiceEnum(list(sizes.SHARING))
ATTENTION_SCALES = ChoiceEnum(list(sizes.ATTENTION_SCALES))
RECURRENT_ATTENTIONS = ChoiceEnum(list(sizes.RECURRENT_ATTENTIONS))


@dataclass
class VaswaniTransformerConfig(FairseqDataclass):
    """Configuration of the Transformer; the defaults are the base model (Table 3, first line)."""

    d_model: int = field(default=512, metadata={"help": "width of the model"})
    d_ff: int = field(default=2048, metadata={"help": "width inside the feed-forward network"})
    encoder_layers: int = field(default=6, metadata={"help": "N of the encoder"})
    decoder_layers: int = field(default=6, metadata={"help": "N of the decoder"})
    heads: int = field(default=8, metadata={"help": "h, attention heads"})
    d_k: Optional[int] = field(  # noqa: UP045 -- fairseq's parser reads no other spelling
        default=None, metadata={"help": "width of a head's queries and keys (d_model / heads)"}
    )
    d_v: Optional[int] = field(  # noqa: UP045
        default=None, metadata={"help": "width of a head's values (d_model / heads)"}
    )
    dropout: float = field(
        default=0.1, metadata={"help": "P_drop, on sub-layer outputs and embeddings + positions"}
    )
    attention_dropout: float = field(
        default=0.0, metadata={"help": "dropout of attention weights (not in the paper)"}
    )
    activation_dropout: float = field(
        default=0.0, metadata={"help": "dropout inside the feed-forward network (not in the paper)"}
    )
    positions: POSITIONS = field(
        default="sinusoidal",
        metadata={"help": "positional encoding: the paper's, fairseq's sinusoids, or learned"},
    )
    share_embeddings: SHARING = field(
        default="all",
        metadata={
            "help": "one matrix for source, target and projection (all, the paper), "
            "for target and projection (decoder), or none shared"
        },
    )
    attention_window: int = field(
        default=0,
        metadata={"help": "r of restricted self-attention (section 4); 0 attends everywhere"},
    )
    attention_scale: ATTENTION_SCALES = field(
        default="sqrt",
        metadata={
            "help": "divide the scores by sqrt(d_k) (sqrt, the paper), or not (none: plain "
            "dot-product attention, section 3.2.1)"
        },
    )
    next_word: bool = field(
        default=False,
        metadata={
            "help": "hand a parser's decoder the encoder's output for the word that it has to "
            "write next (not in the paper)"
        },
    )
    layer_norm_eps: float = field(
        default=1e-6, metadata={"help": "epsilon of LayerNorm (authors' code: 1e-6)"}
    )
    checkpoint_activations: bool = field(
        default=False,
        metadata={
            "help": "keep each layer's input only and compute the rest again in the backward pass: "
            "less memory, more time"
        },
    )
    compile: bool = field(
        default=False,
        metadata={
            "help": "run the layers through torch.compile in training; starts about 20 s later "
            "(vaswani_tiny, one thread) and is meant for GPUs: on a CPU it is slower than without"
        },
    )
    max_source_positions: int = II("task.max_source_positions")
    max_target_positions: int = II("task.max_target_positions")


def _same(name: str) -> Any:
    """Copy a field of the translation model's configuration."""
    other = VaswaniTransformerConfig.__dataclass_fields__[name]
    return field(default=other.default, metadata=other.metadata)


@dataclass
class VaswaniLanguageModelConfig(FairseqDataclass):
    """The paper's base model without the encoder; embeddings and projection are one matrix."""

    d_model: int = _same("d_model")
    d_ff: int = _same("d_ff")
    decoder_layers: int = _same("decoder_layers")
    heads: int = _same("heads")
    d_k: Optional[int] = _same("d_k")  # noqa: UP045
    d_v: Optional[int] = _same("d_v")  # noqa: UP045
    dropout: float = _same("dropout")
    attention_dropout: float = _same("attention_dropout")
    activation_dropout: float = _same("activation_dropout")
    positions: POSITIONS = _same("positions")
    attention_window: int = _same("attention_window")
    attention_scale: ATTENTION_SCALES = _same("attention_scale")
    layer_norm_eps: float = _same("layer_norm_eps")
    checkpoint_activations: bool = _same("checkpoint_activations")
    compile: bool = _same("compile")
    tokens_per_sample: int = II("task.tokens_per_sample")
    add_bos_token: bool = II("task.add_bos_token")
    max_target_positions: Optional[int] = II("task.max_target_positions")  # noqa: UP045


@dataclass
class OneLayerConfig(FairseqDataclass):
    """Sizes of the one-layer language model of the lecture notes; the notes give only T = 512."""

    d_model: int = field(default=512, metadata={"help": "d_embedding"})
    d_hidden: int = field(default=512, metadata={"help": "width of queries, keys and values"})
    d_ff: int = field(default=2048, metadata={"help": "d_1, columns of W_1"})
    dropout: float = field(
        default=0.0, metadata={"help": "on embeddings + positions and on h (none in the formulas)"}
    )
    no_projections: bool = field(
        default=False,
        metadata={
            "help": "compare and average the words' own vectors, score(x_i, x_j) = x_i . x_j: no "
            "queries, keys and values; --d-hidden must be --d-model"
        },
    )
    tokens_per_sample: int = II("task.tokens_per_sample")
    add_bos_token: bool = II("task.add_bos_token")
    max_target_positions: Optional[int] = II("task.max_target_positions")  # noqa: UP045


@dataclass
class RecurrentLanguageModelConfig(FairseqDataclass):
    """The LSTM language model of Merity et al. (2017) on the Penn Treebank."""

    d_model: int = field(
        default=400, metadata={"help": "width of the embeddings, and units of the last layer"}
    )
    units: int = field(default=1150, metadata={"help": "units of the layers before the last one"})
    layers: int = field(default=3, metadata={"help": "LSTM layers"})
    dropout: float = field(
        default=0.4, metadata={"help": "on the last layer's output, one mask for all steps"}
    )
    hidden_dropout: float = field(
        default=0.25, metadata={"help": "on the other layers' outputs, one mask for all steps"}
    )
    input_dropout: float = field(
        default=0.4, metadata={"help": "on embedded words, one mask for all steps"}
    )
    word_dropout: float = field(
        default=0.1, metadata={"help": "of whole words, wherever they stand in the batch"}
    )
    weight_dropout: float = field(
        default=0.5, metadata={"help": "of the weights from a layer's state to its next state"}
    )


@dataclass
class RecurrentConfig(FairseqDataclass):
    """Fields that recurrent models share; the defaults are those of Sutskever et al. (2014)."""

    d_model: int = field(
        default=1000, metadata={"help": "units of each LSTM layer, and width of the embeddings"}
    )
    layers: int = field(default=4, metadata={"help": "layers of the encoder and of the decoder"})
    dropout: float = field(
        default=0.0, metadata={"help": "on embeddings, between layers and before the projection"}
    )
    share_embeddings: SHARING = field(default="none", metadata=_same("share_embeddings").metadata)
    max_source_positions: int = II("task.max_source_positions")
    max_target_positions: int = II("task.max_target_positions")


@dataclass
class Seq2SeqLSTMConfig(RecurrentConfig):
    """Sutskever et al. (2014): 4 layers of 1,000 units, the source read backwards."""

    no_reverse_source: bool = field(
        default=False, metadata={"help": "read the source forwards (the paper: backwards)"}
    )


@dataclass
class AttentionLSTMConfig(RecurrentConfig):
    """A Bi-LSTM encoder (half of the units for each direction) and a decoder with attention."""

    attention: RECURRENT_ATTENTIONS = field(
        default="dot",
        metadata={
            "help": "how the decoder sees the source: by scores s . h (dot, Luong et al. 2015), "
            "s . h / sqrt(d) (scaled-dot) or v . tanh(W s + U h) (additive, Bahdanau et al. 2014), "
            "by the mean of its states at every step (mean), or not but for the states in which "
            "it ends (none)"
        },
    )
    input_feeding: bool = field(
        default=False,
        metadata={"help": "each step also reads the attention's output of the step before"},
    )


def check_recurrent_sizes(cfg: RecurrentConfig) -> None:
    """Check the width, the number of layers and the dropout.

    Raises:
        UserError: when a size is below 1, or the dropout out of range; the message names the flag.
    """
    for name in ("d_model", "layers"):
        if getattr(cfg, name) < 1:
            raise UserError(f"{flag(name)} is {getattr(cfg, name)}; it must be at least 1")
    check_dropouts(cfg, ("dropout",))
