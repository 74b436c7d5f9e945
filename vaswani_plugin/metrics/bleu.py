"""BLEU: sacreBLEU with its signature, tokenized BLEU, and how to read a score."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU

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


@dataclass(frozen=True)
class BleuScore:
    """A corpus BLEU from 0 to 100 and the signature that tells how it was counted."""

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


def sacrebleu_score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lowercase: bool = False,
    knowingly: bool = False,
) -> BleuScore:
    """sacreBLEU (mteval-13a tokenization) of plain, detokenized text.

    Text that looks tokenized draws sacreBLEU's warning, unless it is given `knowingly`.

    Raises ValueError where the two differ in length or are empty.
    """
    metric = BLEU(lowercase=lowercase, tokenize="13a", force=knowingly)
    return _score(metric, hypotheses, references)


def tokenized_score(
    hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> BleuScore:
    """BLEU of text that is already tokenized, as multi-bleu.perl: words are what spaces divide.

    Without smoothing: 0 where no n-gram of some order matches.

    Raises ValueError where the two differ in length or are empty.
    """
    # force: the hint that tokenized text may be a mistake doesn't apply.
    metric = BLEU(lowercase=lowercase, tokenize="none", smooth_method="none", force=True)
    return _score(metric, hypotheses, references)


def _score(metric: BLEU, hypotheses: Sequence[str], references: Sequence[str]) -> BleuScore:
    if len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} hypotheses but {len(references)} references: give one a line"
        )
    if not references:
        raise ValueError("no segments to score")
    result = metric.corpus_score(list(hypotheses), [list(references)])
    # A perfect score comes out as 100.00000000000004.
    return BleuScore(min(result.score, 100.0), metric.get_signature().format())
