"""The scores of a translation: tokenized BLEU, sacreBLEU and chrF; and how to read a BLEU score."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from vaswani_plugin.metrics.bleu_formula import BleuCounts, count_words

# (lower bound, reading). Scores are not rounded: 19.5 is below 20 and 29.7 below 30.
# A border that the table names in two bands (40, 50) belongs to the upper band.
# Only 60 belongs to the lower one, because the last band says "more than 60".
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
    """A corpus score from 0 to 100, and sacreBLEU's signature of the settings."""

    score: float
    signature: str


def reading(score: float) -> str:
    """The quality of a translation in words.

    Args:
        score: BLEU from 0 to 100.

    Raises:
        ValueError: any other number.
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
        knowingly: suppress sacreBLEU's warning about text that looks tokenized.
        tokenizer: one of sacreBLEU's: "13a"; "zh", the same with each Chinese character as a word;
            "char", each character as a word; "intl", which splits at all Unicode punctuation.
    """
    return BLEU(lowercase=lowercase, tokenize=tokenizer, force=knowingly)


def chrf_metric(lowercase: bool = False) -> CHRF:
    """chrF2: the F-score (beta 2) of character 1- to 6-grams (Popović 2015)."""
    return CHRF(lowercase=lowercase)


def corpus_score(metric: Metric, hypotheses: Sequence[str], references: References) -> Score:
    """Score a corpus with one of sacreBLEU's metrics.

    Args:
        metric: such as `sacrebleu_metric` returns.
        hypotheses: N detokenized segments.
        references: one or more lists of N segments.

    Raises:
        ValueError: the sides differ in length or are empty.
    """
    _check(hypotheses, references)
    result = metric.corpus_score(list(hypotheses), [list(lines) for lines in references])
    # sacreBLEU gives 100.00000000000004 for a perfect score.
    return Score(min(result.score, 100.0), metric.get_signature().format())


def tokenized_score(
    hypotheses: Sequence[str], references: References, lowercase: bool = False
) -> BleuCounts:
    """BLEU of tokenized text as multi-bleu.perl computes it; words are separated by spaces.

    It is not smoothed: the score is 0 where no n-gram of some order matches.

    Args:
        hypotheses: N tokenized segments.
        references: one or more lists of N tokenized segments.
        lowercase: ignore case.

    Raises:
        ValueError: the sides differ in length or are empty.
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
