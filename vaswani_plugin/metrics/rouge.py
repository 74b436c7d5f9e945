"""ROUGE-1, -2 and -L (Lin 2004) of summaries, equal to the results of the library rouge-score.

Text is lowercased; words consist of a to z and digits (English) and are stemmed as in the original
script with -m. ROUGE-L treats each summary as one sequence of words. The library itself is not used
because it imports nltk, scikit-learn and scipy, which takes most of a second at every start.
"""

import re
from collections.abc import Callable, Sequence
from statistics import fmean

from vaswani_plugin.metrics.bleu_formula import ngrams
from vaswani_plugin.metrics.porter import stem

KINDS = ("rouge1", "rouge2", "rougeL")
OVER = ("best", "mean")
SHORTEST_STEMMED = 4  # letters
_WORD = re.compile("[a-z0-9]+")


def rouge(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    over: str = "best",
    stemming: bool = True,
) -> dict[str, float]:
    """F1 of each kind, 0 to 100: the mean over the summaries.

    Args:
        hypotheses: N summaries; an empty one scores 0.
        references: one or more for each summary.
        over: how several references count: "best" takes the highest F1 of each kind separately (as
            SciTLDR's authors do), "mean" the mean over all.
        stemming: stem words of more than three letters (Porter 1980).

    Raises:
        ValueError: no summaries, a summary without references, or lists of different lengths.
    """
    if over not in OVER:
        raise ValueError(f"over {over!r}: must be {' or '.join(OVER)}")
    if not hypotheses or len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} summaries and references of {len(references)}")
    choose: Callable[[Sequence[float]], float] = max if over == "best" else fmean
    scores = []
    for number, (hypothesis, group) in enumerate(zip(hypotheses, references, strict=True), start=1):
        if not group:
            raise ValueError(f"summary {number} has no reference")
        words = words_of(hypothesis, stemming)
        found = [f1_of_each_kind(words_of(reference, stemming), words) for reference in group]
        scores.append([choose(column) for column in zip(*found, strict=True)])
    columns = zip(*scores, strict=True)
    return {kind: 100 * fmean(column) for kind, column in zip(KINDS, columns, strict=True)}


def words_of(text: str, stemming: bool) -> list[str]:
    """The words of a text that ROUGE compares, as stems if `stemming`."""
    words = _WORD.findall(text.lower())
    if not stemming:
        return words
    return [stem(word) if len(word) >= SHORTEST_STEMMED else word for word in words]


def f1_of_each_kind(reference: Sequence[str], hypothesis: Sequence[str]) -> list[float]:
    """F1 of two sequences of words, 0 to 1, in the order of `KINDS`."""
    shared = longest_common_subsequence(reference, hypothesis)
    by_ngrams = [_f1_of_ngrams(reference, hypothesis, size) for size in (1, 2)]
    return [*by_ngrams, _f1(shared, len(reference), len(hypothesis))]


def longest_common_subsequence(left: Sequence[str], right: Sequence[str]) -> int:
    """The length of the longest common subsequence; gaps are allowed.

    One integer holds a row of the usual table: a bit is 0 where the length grows by one (Hyyro
    2004).
    """
    places: dict[str, int] = {}
    for place, word in enumerate(left):
        places[word] = places.get(word, 0) | 1 << place
    whole = row = (1 << len(left)) - 1
    for word in right:
        matches = row & places.get(word, 0)
        row = ((row + matches) | (row - matches)) & whole
    return len(left) - row.bit_count()


def _f1_of_ngrams(reference: Sequence[str], hypothesis: Sequence[str], size: int) -> float:
    wanted, found = ngrams(reference, size), ngrams(hypothesis, size)
    return _f1((wanted & found).total(), wanted.total(), found.total())


def _f1(shared: int, wanted: int, found: int) -> float:
    return 2 * shared / (wanted + found) if shared else 0.0


def lead(sentences: Sequence[str], count: int) -> str:
    """The first `count` sentences of an article: the baseline of summarization."""
    return " ".join(sentences[:count])
