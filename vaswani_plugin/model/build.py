"""Builds Transformers: configuration in, `modules` out.

What draws random numbers is built in one fixed order, so that a seed gives the same weights. Where
only sizes are known, a model is built without dictionaries, on the device "meta" without memory.

This is the only file outside `vaswani_plugin/kernels/` that imports the kernels.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vaswani_plugin import kernels
from vaswani_plugin.errors import UserError
from vaswani_plugin.model.configuration import Configuration, head_sizes
from vaswani_plugin.model.families import Family
from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.embedding import (
    Embedding,
    LearnedPositions,
    SinusoidalPositions,
    fairseq_sinusoids,
    sinusoids,
)
from vaswani_plugin.modules.layers import AddNorm, DecoderLayer, EncoderLayer, FeedForward, PreNorm
from vaswani_plugin.modules.transformer import Decoder, DecoderOnly, Encoder, EncoderDecoder

Matrix = TypeVar("Matrix", bound=nn.Module)
Model = TypeVar("Model", bound=nn.Module)
Words = tuple[Tensor, Tensor]
"""Which source tokens end a word, and which target symbols stand for a word; each boolean (V,)."""


class SizedDictionary(Protocol):
    """The part of a dictionary that embeddings need. `==` compares two by their content."""

    def __len__(self) -> int:
        """Number of symbols."""

    def pad(self) -> int:
        """Number of the padding symbol."""

    def eos(self) -> int:
        """Number of the end of sentence."""


def build(
    cfg: Configuration,
    source: SizedDictionary,
    target: SizedDictionary,
    words: Words | None = None,
    encoder: type[Encoder] = Encoder,
    decoder: Callable[..., Decoder] | None = None,
) -> EncoderDecoder:
    """Build a Transformer (section 3, Figure 1).

    Args:
        words: of a parser with `next_word`.
        encoder, decoder: classes of the two halves; with `next_word` a `ParserDecoder`.

    Raises:
        UserError: sizes don't fit, all embeddings are to be shared and the dictionaries differ, or
            `next_word` is on and the task counts no words.
    """
    of_source, of_target, projection = shared_embeddings(
        cfg.share_embeddings, source, target, partial(_embedding, cfg)
    )
    encodes = encoder(
        of_source,
        _positions(cfg, cfg.max_source_positions),
        (encoder_layer(cfg) for _ in range(cfg.encoder_layers)),
        dropout=cfg.dropout,
        window=cfg.attention_window,
        norm=_last_norm(cfg),
    )
    if cfg.next_word:
        from vaswani_plugin.modules.parser import NextWord, ParserDecoder  # translations have none

        if words is None:
            raise UserError("--next-word is for --task vaswani_parsing: no other counts words")
        next_word = NextWord(cfg.d_model, *words, source.pad(), source.eos())
        decoder = partial(decoder or ParserDecoder, next_word=next_word)
    decodes = (decoder or Decoder)(
        of_target,
        _positions(cfg, cfg.max_target_positions),
        (decoder_layer(cfg) for _ in range(cfg.decoder_layers)),
        dropout=cfg.dropout,
        window=cfg.attention_window,
        norm=_last_norm(cfg),
        projection=projection,
    )
    return _initialize(cfg, EncoderDecoder(encodes, decodes))


def build_language_model(
    cfg: Configuration, dictionary: SizedDictionary, kind: type[DecoderOnly] = DecoderOnly
) -> DecoderOnly:
    """Build a Transformer language model; what the configuration says of an encoder is ignored."""
    embedding = _embedding(cfg, dictionary)
    positions = _positions(cfg, cfg.max_target_positions)
    layers = (encoder_layer(cfg) for _ in range(cfg.decoder_layers))
    options = {"dropout": cfg.dropout, "window": cfg.attention_window, "norm": _last_norm(cfg)}
    return _initialize(cfg, kind(embedding, positions, layers, **options))


def accelerated(model: Model) -> Model:
    """Make a built model faster on a CPU, in place; its results stay. See `kernels.accelerate`."""
    kernels.accelerate(model)
    return model


def packing() -> Any:
    """Make what packs a decoder's weights for search: `kernels.Packing`, or None without it."""
    return kernels.packing()


def has_search_shortcuts() -> Any:
    """Return whether a search may do the same in a faster way: `kernels.speeds_up_search`."""
    return kernels.speeds_up_search()


def encoder_layer(cfg: Configuration) -> EncoderLayer:
    """Section 3.1; also the layer of a language model."""
    return EncoderLayer(_attention(cfg), _feed_forward(cfg), partial(_add_norm, cfg))


def decoder_layer(cfg: Configuration) -> DecoderLayer:
    """Section 3.1."""
    attentions = _attention(cfg), _attention(cfg)
    return DecoderLayer(*attentions, _feed_forward(cfg), partial(_add_norm, cfg))


def _attention(cfg: Configuration) -> MultiHeadAttention:
    """Section 3.2.2."""
    sizes = cfg.d_model, cfg.heads, *head_sizes(cfg)
    return MultiHeadAttention(*sizes, cfg.attention_dropout, cfg.attention_scale != "none")


def _feed_forward(cfg: Configuration) -> FeedForward:
    """Section 3.3."""
    return FeedForward(cfg.d_model, cfg.d_ff, cfg.activation_dropout)


def _add_norm(cfg: Configuration) -> AddNorm | PreNorm:
    """Section 3.1."""
    layer = PreNorm if cfg.norm == "pre" else AddNorm
    return layer(cfg.d_model, cfg.dropout, cfg.layer_norm_eps)


def _last_norm(cfg: Configuration) -> nn.LayerNorm | None:
    return nn.LayerNorm(cfg.d_model, cfg.layer_norm_eps) if cfg.norm == "pre" else None


def _initialize(cfg: Configuration, model: Model) -> Model:
    """Draw all weights anew as `initial_weights` says; "own" keeps what the modules have drawn."""
    if cfg.initial_weights == "own":
        return model
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if cfg.initial_weights == "xavier":
                nn.init.xavier_uniform_(module.weight)
            else:
                nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)
        elif isinstance(module, Embedding) and cfg.initial_weights == "normal":
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.weight[module.padding_idx])
    return model


class WithoutInitialWeights(TorchFunctionMode):
    """In its block the functions of `torch.nn.init` leave tensors as they are.

    On the device "meta", drawing would import PyTorch's compiler, a second. Not all functions call
    the mode: those of Xavier draw by a tensor's own methods.
    With the `shapes` of the weights that there are, others are refused before they take memory.
    """

    DRAWS = torch.Tensor.uniform_, torch.Tensor.normal_

    def __init__(self, shapes: Iterable[torch.Size] | None = None) -> None:
        super().__init__()
        self.left = None if shapes is None else Counter(shapes)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """See `TorchFunctionMode`; the tensor is the first argument, or named."""
        options = kwargs or {}
        if func is torch.empty and self.left is not None:
            self.left[shape := torch.Size(args if isinstance(args[0], int) else args[0])] -= 1
            if self.left[shape] < 0:
                asked = f"asks for more weights of shape {tuple(shape)} than it holds"
                raise UserError(f"its configuration {asked}; use files that were saved together")
        if func in self.DRAWS or getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else options["tensor"]
        return func(*args, **options)


def _embedding(cfg: Configuration, dictionary: SizedDictionary) -> Embedding:
    """Section 3.4, with a row for each symbol of the dictionary."""
    return Embedding(len(dictionary), cfg.d_model, dictionary.pad())


def _positions(cfg: Configuration, rows: int) -> nn.Module:
    """Section 3.5, with a table of so many rows: (B, T) numbers -> (B, T, D)."""
    if cfg.positions == "learned":
        return LearnedPositions(rows, cfg.d_model)
    encoding = fairseq_sinusoids if cfg.positions == "sinusoidal-fairseq" else sinusoids
    return SinusoidalPositions(rows, cfg.d_model, encoding)


def shared_embeddings(
    share: str,
    source: SizedDictionary,
    target: SizedDictionary,
    make: Callable[[SizedDictionary], Matrix],
) -> tuple[Matrix, Matrix, Matrix]:
    """Make the matrices of the source's embedding, the target's and the projection (section 3.4).

    Args:
        share: "all": one matrix for the three; "decoder": one for target and projection; "none".
        make: makes the matrix (V, D) of a dictionary.
    """
    if share == "all" and source != target:
        raise UserError(
            "the source and target dictionaries differ, so one matrix can't serve both; "
            "binarize with --joined-dictionary, or give --share-embeddings decoder"
        )
    of_target = make(target)
    of_source = of_target if share == "all" else make(source)
    projection = make(target) if share == "none" else of_target
    return of_source, of_target, projection


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


def build_sizes(family: Family, cfg: Any, words: tuple[int, int]) -> Any:
    """Build a model of which only the sizes of its dictionaries are known.

    `words` are the rows of the source's and the target's embedding. Equal ones are one dictionary.
    """
    options = {}
    if getattr(cfg, "next_word", False):
        options["words"] = tuple(torch.zeros(rows, dtype=torch.bool) for rows in words)
    return family.build(cfg, *map(Rows, words), **options)


def count_parameters(family: Family, changes: Mapping[str, Any], words: tuple[int, int]) -> int:
    """Count the parameters of a model; a shared matrix counts once. No memory is allocated.

    `changes` are the values of its configuration that are not the defaults; see `build_sizes`.
    """
    with torch.device("meta"), WithoutInitialWeights():
        built = build_sizes(family, family.configuration(**changes), words)
    return sum(parameter.numel() for parameter in built.parameters())
