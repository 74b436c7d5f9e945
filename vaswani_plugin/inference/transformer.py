"""Trained Transformers with the interface of the search, built of `modules`.

The search uses fairseq's names for methods and attributes, so that it also takes fairseq's own
models. The classes here have these names and need torch alone. Parameters are named as in a
checkpoint.

Axes: B batch, S source length (of a language model: scored tokens), T target length, D d_model,
V vocabulary.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.model.build import Words, build, build_language_model, require_positions
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.modules.language_model import LanguageModel
from vaswani_plugin.modules.transformer import Decoder, Encoder, EncoderDecoder
from vaswani_plugin.text.dictionary import Dictionary


class SourceEncoder(Encoder):
    """`modules.transformer.Encoder` with the output format that the search needs."""

    max_source_positions: int

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
        lengths = net_input.get("known_lengths")
        is_padded = lengths is None or bool(lengths.min() < tokens.size(1))
        features = self(tokens, is_padded=is_padded).features
        return {
            "encoder_out": [features.transpose(0, 1)],  # (B, S, D) -> (S, B, D)
            "encoder_padding_mask": [tokens.eq(self.padding_idx)] if is_padded else [],
            "src_tokens": [tokens],
        }


class TargetDecoder(Decoder):
    """`modules.transformer.Decoder` with the attributes that the search reads."""

    dictionary: Dictionary
    weights_are_final = True


class TrainedTransformer(EncoderDecoder):
    """The Transformer of Figure 1, with the interface of the search."""

    takes_known_lengths = True

    def __init__(
        self,
        sizes: Configuration,
        source: Dictionary,
        target: Dictionary,
        words: Words | None = None,
    ) -> None:
        built = build(sizes, source, target, words, SourceEncoder, TargetDecoder)
        super().__init__(built.encoder, built.decoder)
        self.sizes = sizes
        self.encoder.max_source_positions = sizes.max_source_positions
        self.decoder.dictionary = target

    def max_positions(self) -> tuple[int, int]:
        """Longest source and target in tokens, the ends of sentence included."""
        return self.sizes.max_source_positions, self.sizes.max_target_positions

    def max_decoder_positions(self) -> int:
        """Longest target in tokens, the end of sentence included."""
        return self.sizes.max_target_positions


class TextDecoder(LanguageModel):
    """`modules.language_model.LanguageModel` with the attributes that the search reads."""

    dictionary: Dictionary
    max_target_positions: int
    weights_are_final = True


class TrainedLanguageModel(nn.Module):
    """The Transformer language model, for the search and for scoring."""

    def __init__(self, sizes: Configuration, dictionary: Dictionary) -> None:
        super().__init__()
        self.sizes = sizes
        self.decoder = build_language_model(sizes, dictionary, TextDecoder)
        self.decoder.dictionary = dictionary
        self.decoder.max_target_positions = sizes.max_target_positions

    def max_decoder_positions(self) -> int:
        """Longest text in tokens."""
        return self.sizes.max_target_positions

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
