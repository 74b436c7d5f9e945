"""The scores of a translation: tokenized BLEU, sacreBLEU and chrF; and how to read a BLEU score."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.base import Metric

from vaswani_plugin.metrics.bleu_formula import BleuCounts, count_words

# (lower bound, reading). A score is read exactly, not rounded: 19.5 is below 20 and 29.7 below 30.
# Where the bands meet, the table names the border twice (40, 50): it counts to the upper band.
# Only 60 itself stays below, because the last band says "more than 60".
_BANDS = (
    (0.0, "almost useless"),
    (10.0, "hard to get the gist"),
    (20.0, "the gist is clear, but has significant grammatical errors"),
    (30.0, "understandable to good translations"),
    (40.0, "high quality translations"),
    (50.0, "very high quality, adequate, and fluent translations"),
)
_TOP = (60.0, "quality often better than human")

References = Sequence[Sequence[str]]
"""One or more lists of references, each with a segment for each hypothesis."""


@dataclass(frozen=True)
class Score:
    """A corpus score from 0 to 100 and the signature that tells how it was counted."""

    score: float
    signature: str


def reading(score: float) -> str:
    """What a BLEU score from 0 to 100 says of a translation.

    Raises ValueError for any other number.
    """
    if not 0.0 <= score <= 100.0:
        raise ValueError(f"{score} is no BLEU score: it must lie between 0 and 100")
    if score > _TOP[0]:
        return _TOP[1]
    return [text for bound, text in _BANDS if score >= bound][-1]


def sacrebleu_metric(
    lowercase: bool = False, knowingly: bool = False, tokenizer: str = "13a"
) -> BLEU:
    """sacreBLEU for plain, detokenized text.

    Args:
        lowercase: ignore case.
        knowingly: without sacreBLEU's warning of text that looks tokenized.
        tokenizer: of sacreBLEU's: "13a"; "zh", the same with each Chinese character as a word;
            "char", each character as a word; "intl", by all of Unicode's punctuation.
    """
    return BLEU(lowercase=lowercase, tokenize=tokenizer, force=knowingly)


def chrf_metric(lowercase: bool = False) -> CHRF:
    """chrF2: the F-score of character 1- to 6-grams, recall counted twice (Popović 2015)."""
    return CHRF(lowercase=lowercase)


def corpus_score(metric: Metric, hypotheses: Sequence[str], references: References) -> Score:
    """Score a corpus with one of sacreBLEU's metrics.

    Raises ValueError where the sides differ in length or are empty.
    """
    _check(hypotheses, references)
    result = metric.corpus_score(list(hypotheses), [list(lines) for lines in references])
    # A perfect score comes out as 100.00000000000004.
    return Score(min(result.score, 100.0), metric.get_signature().format())


def tokenized_score(
    hypotheses: Sequence[str], references: References, lowercase: bool = False
) -> BleuCounts:
    """BLEU of text that is already tokenized, as multi-bleu.perl: words are what spaces divide.

    Without smoothing: 0 where no n-gram of some order matches.

    Raises ValueError where the sides differ in length or are empty.
    """
    _check(hypotheses, references)
    return count_words(hypotheses, references, lowercase)


def _check(hypotheses: Sequence[str], references: References) -> None:
    for lines in references:
        if len(hypotheses) != len(lines):
            raise ValueError(
                f"{len(hypotheses)} hypotheses but {len(lines)} references: give one a line"
            )
    if not references or not hypotheses:
        raise ValueError("no segments to score")
