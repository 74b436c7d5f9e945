"""The phrase table of the statistical baseline: words aligned, phrase pairs counted and scored.

Koehn, Och and Marcu (2003): IBM Model 2 in both directions aligns the words (nltk), grow-diag joins
the two alignments, and phrase pairs that agree with the result are counted (nltk). A phrase pair's
score is the average of four logarithms: its relative frequency in both directions, and its lexical
weight in both directions.
"""

from collections import Counter
from collections.abc import Sequence
from math import log

from nltk.translate import AlignedSent, IBMModel2, PhraseTable
from nltk.translate.phrase_based import phrase_extraction

Words = tuple[str, ...]
Alignment = set[tuple[int, int]]
"""Pairs of a source position and a target position, both from 0 on."""

NEIGHBORS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
LEAST = 1e-7
"""The lexical probability of a word that no word of the other side explains."""


def train_ibm_model(pairs: Sequence[tuple[Words, Words]], iterations: int) -> tuple[dict, list]:
    """Trains IBM Model 2 (after Model 1, twice as long), which explains `pairs[i][1]` by `[0]`.

    Returns:
        t(target word | source word) as a table [target][source], source None being NULL; and the
        best alignment of each pair.
    """
    corpus = [AlignedSent(list(target), list(source)) for source, target in pairs]
    model = IBMModel2(corpus, iterations)
    alignments = [
        {(source, target) for target, source in pair.alignment if source is not None}
        for pair in corpus
    ]
    return model.translation_table, alignments


def grow_diagonally(forward: Alignment, backward: Alignment) -> Alignment:
    """Joins two alignments: their intersection, grown by neighbors of the union (grow-diag).

    A neighbor is added if one of its two words has no alignment yet. nltk's `grow_diag_final_and`
    looks words up in the wrong set and so always returns the union.
    """
    union, found = forward | backward, forward & backward
    sources, targets = ({point[side] for point in found} for side in (0, 1))
    queue = sorted(found)
    for i, j in queue:  # which grows
        for down, right in NEIGHBORS:
            point = i + down, j + right
            is_free = point[0] not in sources or point[1] not in targets
            if point in union and point not in found and is_free:
                found.add(point)
                sources.add(point[0])
                targets.add(point[1])
                queue.append(point)
    return found


def count_phrases(
    pairs: Sequence[tuple[Words, Words]], alignments: Sequence[Alignment], longest: int
) -> Counter[tuple[Words, Words]]:
    """Counts the phrase pairs that agree with the alignments, at most `longest` words a side."""
    counts: Counter[tuple[Words, Words]] = Counter()
    for (source, target), alignment in zip(pairs, alignments, strict=True):
        texts = " ".join(source), " ".join(target)
        for _, _, left, right in phrase_extraction(*texts, sorted(alignment), longest):
            counts[tuple(left.split(" ")), tuple(right.split(" "))] += 1
    return counts


def lexical_weight(table: dict, target: Words, source: Words) -> float:
    """log of the product over target words of the greatest t(target word | source word)."""
    total = 0.0
    for word in target:
        row = table[word]
        total += log(max(max(row.get(given, 0.0) for given in (None, *source)), LEAST))
    return total


def make_phrase_table(
    counts: Counter[tuple[Words, Words]], forward: dict, backward: dict, options: int
) -> PhraseTable:
    """Scores the phrase pairs and keeps the best `options` translations of each source phrase.

    Args:
        counts: of the phrase pairs.
        forward: t(target word | source word), as `train_ibm_model` returns it.
        backward: t(source word | target word).
        options: number of translations.
    """
    of_source: Counter[Words] = Counter()
    of_target: Counter[Words] = Counter()
    for (source, target), count in counts.items():
        of_source[source] += count
        of_target[target] += count
    found: dict[Words, list[tuple[float, Words]]] = {}
    for (source, target), count in counts.items():
        score = log(count / of_source[source]) + log(count / of_target[target])
        score += lexical_weight(forward, target, source) + lexical_weight(backward, source, target)
        found.setdefault(source, []).append((score / 4, target))
    table = PhraseTable()
    for source, translations in found.items():
        for score, target in sorted(translations, reverse=True)[:options]:
            table.add(source, target, score)
    return table
