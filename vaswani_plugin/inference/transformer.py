"""Trained Transformers with the interface of the search, built of `modules`.

The search uses fairseq's names for methods and attributes, so that it also takes fairseq's own
models. The classes here have these names and need torch alone. Parameters are named as in a
checkpoint.

Axes: B batch, S source length (of a language model: scored tokens), T target length, D d_model,
V vocabulary.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.model.parts import (
    ModuleParts,
    may_be_padded,
    require_positions,
    shared_embeddings,
)
from vaswani_plugin.model.sizes import TransformerSizes
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.language_model import LanguageModel
from vaswani_plugin.modules.layers import DecoderLayer, EncoderLayer
from vaswani_plugin.modules.parser import NextWord
from vaswani_plugin.modules.transformer import Decoder, Encoder
from vaswani_plugin.text.dictionary import Dictionary


class SourceEncoder(Encoder):
    """`modules.transformer.Encoder` with the output format that the search needs."""

    def __init__(
        self, embedding: Embedding, layers: Iterable[EncoderLayer], parts: ModuleParts
    ) -> None:
        cfg = parts.cfg
        positions = parts.positions(cfg.max_source_positions)
        super().__init__(embedding, positions, layers, cfg.dropout, cfg.attention_window)
        self.max_source_positions = cfg.max_source_positions

    def forward_torchscript(self, net_input: dict[str, Any]) -> dict[str, list[Tensor]]:
        """Encode a batch.

        Args:
            net_input: `src_tokens` (B, S), padded on either side; `known_lengths` (B,), a NumPy
                array, where the lengths are known without looking at the device.

        Returns:
            `encoder_out` [(S, B, D)], `encoder_padding_mask` [(B, S), True at padding], or [] if
            the lengths show that there is no padding, and `src_tokens` [(B, S)].

        Raises:
            UserError: when S exceeds the positions of the model.
        """
        tokens = net_input["src_tokens"]
        require_positions(tokens.size(1), self.max_source_positions, "source")
        is_padded = may_be_padded(tokens.size(1), net_input.get("known_lengths"))
        features = self(tokens, is_padded=is_padded).features
        return {
            "encoder_out": [features.transpose(0, 1)],  # (B, S, D) -> (S, B, D)
            "encoder_padding_mask": [tokens.eq(self.padding_idx)] if is_padded else [],
            "src_tokens": [tokens],
        }


class TargetDecoder(Decoder):
    """`modules.transformer.Decoder` with the attributes that the search reads.

    Attributes:
        dictionary: of the target; all models of an ensemble must have the same one.
        next_word: the part of a parser whose decoder reads the next word, else None.
        weights_are_final: the weights don't change any more.
    """

    weights_are_final = True

    def __init__(
        self,
        dictionary: Dictionary,
        embedding: Embedding,
        projection: Embedding,
        layers: Iterable[DecoderLayer],
        parts: ModuleParts,
        next_word: NextWord | None = None,
    ) -> None:
        cfg = parts.cfg
        positions = parts.positions(cfg.max_target_positions)
        super().__init__(
            embedding, positions, layers, cfg.dropout, cfg.attention_window, projection
        )
        self.dictionary = dictionary
        self.next_word = next_word


class TrainedTransformer(nn.Module):
    """The Transformer of Figure 1, with the interface of the search.

    Attributes:
        takes_known_lengths: the encoder's input may have `known_lengths`.

    Args:
        sizes: of the model.
        source: dictionary.
        target: dictionary.
        words: for a parser with `next_word`: which source tokens end a word, and which target
            symbols stand for a word; each boolean (V,).

    Raises:
        ValueError: sizes don't fit, or all embeddings are to be shared and the dictionaries differ.
    """

    takes_known_lengths = True

    def __init__(
        self,
        sizes: TransformerSizes,
        source: Dictionary,
        target: Dictionary,
        words: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.sizes = sizes
        parts = ModuleParts(sizes)
        of_source, of_target, projection = shared_embeddings(
            sizes.share_embeddings, source, target, parts.embedding
        )
        next_word = None
        if sizes.next_word:
            assert words is not None
            next_word = NextWord(sizes.d_model, *words, source.pad(), source.eos())
        encoder_layers = (parts.encoder_layer() for _ in range(sizes.encoder_layers))
        self.encoder = SourceEncoder(of_source, encoder_layers, parts)
        decoder_layers = (parts.decoder_layer() for _ in range(sizes.decoder_layers))
        self.decoder = TargetDecoder(
            target, of_target, projection, decoder_layers, parts, next_word
        )

    def max_positions(self) -> tuple[int, int]:
        """Longest source and target in tokens, the ends of sentence included."""
        return self.sizes.max_source_positions, self.sizes.max_target_positions

    def max_decoder_positions(self) -> int:
        """Longest target in tokens, the end of sentence included."""
        return self.sizes.max_target_positions


class TextDecoder(LanguageModel):
    """`modules.language_model.LanguageModel` with the attributes that the search reads.

    Attributes:
        dictionary: of the text.
        max_target_positions: longest text in tokens.
        weights_are_final: the weights don't change any more, except in dynamic evaluation.
    """

    weights_are_final = True

    def __init__(self, dictionary: Dictionary, parts: ModuleParts) -> None:
        cfg = parts.cfg
        layers = (parts.encoder_layer() for _ in range(cfg.decoder_layers))
        super().__init__(
            parts.embedding(dictionary),
            parts.positions(cfg.max_target_positions),
            layers,
            dropout=cfg.dropout,
            window=cfg.attention_window,
        )
        self.dictionary = dictionary
        self.max_target_positions = cfg.max_target_positions


class TrainedLanguageModel(nn.Module):
    """The Transformer language model, for the search and for scoring.

    Args:
        sizes: of the model; sizes of an encoder are ignored.
        dictionary: of the text.

    Raises:
        ValueError: sizes don't fit.
    """

    def __init__(self, sizes: TransformerSizes, dictionary: Dictionary) -> None:
        super().__init__()
        self.sizes = sizes
        self.decoder = TextDecoder(dictionary, ModuleParts(sizes))

    def max_decoder_positions(self) -> int:
        """Longest text in tokens."""
        return self.decoder.max_target_positions

    def log_probabilities(self, tokens: Tensor, scored: list[slice], targets: Tensor) -> Tensor:
        """See `stream_scoring.ScoringModel`."""
        features = self.decoder(tokens, right_padded=True).features  # (B, T, D)
        vocabulary = len(self.decoder.dictionary)
        rows = select_rows(features, scored)
        return projected_log_probabilities(rows, targets, self.decoder.project, vocabulary)


CHUNK_ELEMENTS = 1 << 22
"""Logits formed at a time: 16 MiB in float32."""


def select_rows(x: Tensor, scored: list[slice]) -> Tensor:
    """The positions of each text that are scored: (B, T, ...) -> (S, ...)."""
    return torch.cat([row[part] for row, part in zip(x, scored, strict=True)])


def projected_log_probabilities(
    features: Tensor, targets: Tensor, project: Callable[[Tensor], Tensor], vocabulary: int
) -> Tensor:
    """log P of each target, in chunks, so that the logits are never in memory all at once.

    Args:
        features: outputs of the decoder, (S, D).
        targets: numbers of tokens, (S,).
        project: (s, D) -> logits, or log-probabilities (s, V).
        vocabulary: V.

    Returns:
        Natural logarithms (S,), at least in float32.
    """
    rows = max(1, CHUNK_ELEMENTS // vocabulary)
    found = []
    chunks = zip(torch.split(features, rows), torch.split(targets, rows), strict=True)
    for x, gold in chunks:
        logits = project(x)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        found.append(-F.cross_entropy(logits, gold, reduction="none"))
    return torch.cat(found)
