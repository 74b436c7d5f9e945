"""Results of a `Translator`. Scores are natural logarithms; tokens are the model's subwords."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Tokens = Sequence[str]


class Decoded(NamedTuple):
    """A hypothesis as the model's subwords, as an engine finds it; see `Hypothesis`."""

    tokens: tuple[str, ...]
    score: float
    token_scores: tuple[float, ...]
    alignment: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Hypothesis:
    """One translation.

    Args:
        text: running text.
        score: log P / length penalty.
        tokens: without the end of sentence.
        token_scores: log P of each token, then of the end of sentence.
        alignment: (source, target) positions of subwords; empty without the option `align`.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    alignment: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Translation:
    """A text and its translations.

    Args:
        source: the text as it was given.
        source_tokens: its subwords.
        hypotheses: the best one first, at least one.
    """

    source: str
    source_tokens: tuple[str, ...]
    hypotheses: tuple[Hypothesis, ...]

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text

    @property
    def score(self) -> float:
        """The score of the best translation: log P / length penalty."""
        return self.hypotheses[0].score

    @property
    def tokens(self) -> tuple[str, ...]:
        """The subwords of the best translation."""
        return self.hypotheses[0].tokens

    @property
    def token_scores(self) -> tuple[float, ...]:
        """log P of each subword of the best translation, then of its end."""
        return self.hypotheses[0].token_scores

    @property
    def alignment(self) -> tuple[tuple[int, int], ...]:
        """(source, target) positions of the best translation; empty without the option `align`."""
        return self.hypotheses[0].alignment

    def _repr_html_(self) -> str:
        from vaswani_plugin.inference.notebook import translation_html

        return translation_html(self)


@dataclass(frozen=True)
class Score:
    """The model's score of a given translation.

    Args:
        log_probability: log P of the target, its end included.
        tokens: subwords of the target, without the end of sentence.
        token_scores: log P of each, then of the end of sentence.
    """

    log_probability: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
