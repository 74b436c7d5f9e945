"""The interface of engines, which decode batches of subwords for a `Translator`."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from vaswani_plugin.inference.attention import RawAttention
from vaswani_plugin.search.options import SearchOptions

Tokens = Sequence[str]


class Decoded(NamedTuple):
    """A hypothesis as the model's subwords; see `results.Hypothesis`."""

    tokens: tuple[str, ...]
    score: float
    token_scores: tuple[float, ...]
    alignment: tuple[tuple[int, int], ...]


class Engine(Protocol):
    """Decodes batches of subwords, scores given targets, and shows attention weights."""

    longest_source: int
    """Most subwords of a source, the end of sentence not counted."""
    longest_target: int
    """Most subwords of a target, the end of sentence not counted."""

    def decode(
        self,
        sources: Sequence[Tokens],
        options: SearchOptions,
        prefixes: Sequence[Tokens] | None = None,
        seed: int | None = None,
    ) -> list[list[Decoded]]:
        """Decode a batch. Threads may call it at the same time.

        Args:
            sources: subwords of each sentence, at least one, at most `longest_source`. The longest
                sentence comes first, as fairseq's own LSTM needs it.
            options: of the search.
            prefixes: subwords that the translation of each sentence begins with.
            seed: of samples; None: a random seed.

        Returns:
            The hypotheses of each sentence, the best one first.

        Raises:
            UserError: options that the engine doesn't know, or a prefix that is too long.
        """

    def score(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[tuple[float, ...]]:
        """Score a batch of pairs.

        Args:
            sources: subwords of each source.
            targets: subwords of each target.

        Returns:
            For each pair log P of every target token, then of the end of sentence.
        """

    def attention(self, source: Tokens, target: Tokens) -> RawAttention:
        """The weights of every layer and head.

        Raises:
            UserError: the model has none that can be shown.
        """
