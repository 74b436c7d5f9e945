"""The weights of every layer and head for a sentence and its translation (section 3.2.3).

Axes: N layers, H heads, T queries, S keys.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from vaswani_plugin.text.bpe import join_bpe
from vaswani_plugin.text.pipeline import WORD_BORDERS

EOS = "</s>"
KINDS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "decoder to encoder",
}
"""The three attentions of section 3.2.3, by name."""
JOINERS: dict[str, Callable[[list[str]], str]] = {
    "subword-nmt": lambda tokens: join_bpe(" ".join(tokens)),
    "sentencepiece": lambda tokens: "".join(tokens).removeprefix("▁"),
    "none": "".join,
}

Weights = np.ndarray[Any, np.dtype[Any]]
Sides = tuple[Sequence[str], Sequence[str]]


class RawAttention(NamedTuple):
    """The weights of an engine, (N, H, T, S), of each kind that the model has (keys of `KINDS`).

    The end of sentence has its own row and column; `unknown` are tokens not in the dictionaries.
    """

    weights: dict[str, Weights]
    unknown: tuple[int, int]


@dataclass(frozen=True)
class HeadWeights:
    """One of the three attentions: labels of T queries and S keys, weights (N, H, T, S)."""

    queries: list[str]
    keys: list[str]
    weights: Weights = field(repr=False)

    def merged(self, subwords: str) -> "HeadWeights":
        """Merge subwords of a kind: sum weights over keys, average them over queries."""
        rows, columns = _word_starts(self.queries, subwords), _word_starts(self.keys, subwords)
        sizes = np.diff([*rows, len(self.queries)])
        summed = np.add.reduceat(self.weights.astype(np.float64), columns, axis=-1)
        means = np.add.reduceat(summed, rows, axis=-2) / sizes[:, None]
        return HeadWeights(
            _words(self.queries, rows, subwords), _words(self.keys, columns, subwords), means
        )


@dataclass(frozen=True)
class Attention:
    """A sentence, its translation and the attention weights of each head.

    The queries of `cross` are the predicted tokens; of `decoder`, the target shifted right by one.

    Args:
        source, target: texts.
        kinds: weights by the keys of `KINDS`; a model may have fewer than three.
        unknown: how many tokens of the source and of the target the dictionaries lack.
    """

    source: str
    target: str
    kinds: dict[str, HeadWeights]
    unknown: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, source: str, target: str, tokens: Sides, raw: RawAttention) -> "Attention":
        """Label the weights of an engine; `tokens` are of both sides, without ends of sentence."""
        sources, predicted = [*tokens[0], EOS], [*tokens[1], EOS]
        shifted = [EOS, *tokens[1]]  # shifted by one, as in training
        sides = (sources, sources), (shifted, shifted), (predicted, sources)
        labels = dict(zip(KINDS, sides, strict=True))
        kinds = {kind: HeadWeights(*labels[kind], heads) for kind, heads in raw.weights.items()}
        return cls(source, target, kinds, raw.unknown)

    def merged(self, subwords: str) -> "Attention":
        """See `HeadWeights.merged`."""
        return replace(self, kinds={k: a.merged(subwords) for k, a in self.kinds.items()})


def _word_starts(tokens: list[str], subwords: str) -> list[int]:
    is_border, pairs = WORD_BORDERS[subwords], enumerate(pairwise(tokens), start=1)
    return [0, *(i for i, pair in pairs if EOS in pair or is_border(*pair))]


def _words(tokens: list[str], starts: list[int], subwords: str) -> list[str]:
    groups = [tokens[a:b] for a, b in zip(starts, [*starts[1:], len(tokens)], strict=True)]
    return [JOINERS[subwords](group) or " ".join(group) for group in groups]
