"""ROUGE-1, -2 and -L (Lin 2004) of summaries, by the library rouge-score.

It lower-cases, keeps the letters a to z and digits alone (English text), and stems like the
original script with -m. ROUGE-L takes each summary as one sequence of words.
"""

from collections.abc import Sequence
from statistics import fmean

from rouge_score.rouge_scorer import RougeScorer

KINDS = ("rouge1", "rouge2", "rougeL")
OVER = ("best", "mean")


def rouge(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    over: str = "best",
    stemming: bool = True,
) -> dict[str, float]:
    """F1 of each kind, 0 to 100: the mean over the summaries.

    Args:
        hypotheses: N summaries; an empty one scores 0.
        references: of each, one or more.
        over: of several references "best" takes the one with the highest F1, for each kind by
            itself (as SciTLDR's authors do), "mean" the mean over all.
        stemming: Porter's, of words of more than three letters.

    Raises:
        ValueError: no summaries, one without a reference, or another number of references.
    """
    if over not in OVER:
        raise ValueError(f"over {over!r}: must be {' or '.join(OVER)}")
    if not hypotheses or len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} summaries and references of {len(references)}")
    scorer = RougeScorer(KINDS, use_stemmer=stemming)
    choose = {"best": max, "mean": fmean}[over]
    scores = []
    for number, (hypothesis, group) in enumerate(zip(hypotheses, references, strict=True), start=1):
        if not group:
            raise ValueError(f"summary {number} has no reference")
        found = [scorer.score(reference, hypothesis) for reference in group]
        scores.append([choose([scores[kind].fmeasure for scores in found]) for kind in KINDS])
    columns = zip(*scores, strict=True)
    return {kind: 100 * fmean(column) for kind, column in zip(KINDS, columns, strict=True)}


def lead(sentences: Sequence[str], count: int) -> str:
    """The first sentences of an article: the baseline of summarization."""
    return " ".join(sentences[:count])
