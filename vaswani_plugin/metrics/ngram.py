"""Baselines of a language model: uniform, unigram, trigram, over words.

The n-gram model is interpolated modified Kneser-Ney (Chen & Goodman 1999): a discount D_1, D_2 or
D_3+ is subtracted from each count, and the discounted mass of a context goes to the next lower
order, which counts the different contexts of an n-gram. The lowest order interpolates with the
uniform distribution. Order 1 is a unigram model with absolute discounting, order 0 the uniform
distribution.

No maintained library does this for millions of words in Python: nltk's `KneserNeyInterpolated`
takes a day for wikitext-2, and the kenlm package does not estimate models.

Axes: N tokens, G distinct n-grams of an order, C distinct contexts.
"""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vaswani_plugin.metrics.perplexity import (
    count_text,
    cross_entropy_rate,
    perplexity,
    result,
)
from vaswani_plugin.metrics.scored_text import (
    ScoredText,
    number_lines,
    text_to_score,
    unknown_warning,
)
from vaswani_plugin.text.coding import UNKNOWN

ORDERS = {"uniform": 0, "unigram": 1, "trigram": 3}
Discounts = tuple[float, float, float]
FALLBACK_DISCOUNTS: Discounts = (0.5, 1.0, 1.5)
"""Used where the counts of counts give no discounts, as for a vocabulary of 65 characters."""


class NgramModel:
    """An n-gram model, estimated from a stream of tokens; contexts cross line ends.

    Args:
        tokens: training text, (N,) numbers below `vocabulary`.
        order: 3 for trigrams; 0 is the uniform distribution.
        vocabulary: number of different tokens.
        start: the token before the first one, such as the end of a line.

    Raises:
        ValueError: too many n-grams for 64-bit numbers.
    """

    def __init__(
        self,
        tokens: ArrayLike,
        order: int,
        vocabulary: int,
        start: int,
    ) -> None:
        tokens = np.asarray(tokens, np.int64)
        if vocabulary ** max(order, 1) > np.iinfo(np.int64).max:
            raise ValueError(f"{order}-grams of {vocabulary:,} types are too many to be numbered")
        self.vocabulary, self.start = vocabulary, start
        self._orders: list[tuple[NDArray, ...]] = []  # from the lowest one; see _estimate
        occurrences = self._ngrams(tokens, order)
        for length in range(order, 0, -1):
            ngrams, counts = np.unique(occurrences, return_counts=True)
            self._orders.insert(0, self._estimate(ngrams, counts))
            occurrences = ngrams % vocabulary ** (length - 1)  # each once: contexts are counted

    def _ngrams(self, tokens: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """The n-gram that ends with each token, packed into one number, (N,)."""
        padded = np.concatenate([np.full(max(length - 1, 0), self.start), tokens])
        packed = np.zeros(len(tokens), np.int64)
        for offset in range(length):
            packed = packed * self.vocabulary + padded[offset : offset + len(tokens)]
        return packed

    def _estimate(self, ngrams: NDArray, counts: NDArray) -> tuple[NDArray, ...]:
        """n-grams (G,), counts (G,), discounts (4,); contexts (C,), their totals and left mass."""
        discounts = np.array([0.0, *estimate_discounts(counts)])
        contexts, first = np.unique(ngrams // self.vocabulary, return_index=True)
        taken = discounts[np.minimum(counts, 3)]
        sums = np.add.reduceat(counts, first), np.add.reduceat(taken, first)
        return ngrams, counts, discounts, contexts, *sums

    def log_probabilities(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """Natural logarithm of the probability of each token of a stream (N,), given those before.

        Tokens are numbers below `vocabulary`.
        """
        tokens = np.asarray(tokens, np.int64)
        probability = np.full(len(tokens), 1 / self.vocabulary)
        for length, order in enumerate(self._orders, start=1):
            ngrams, counts, discounts, contexts, totals, left_over = order
            asked = self._ngrams(tokens, length)
            index, is_seen = _find(contexts, asked // self.vocabulary)
            total = np.where(is_seen, totals[index], 1)
            rest = np.where(is_seen, left_over[index], 1.0)
            index, is_seen = _find(ngrams, asked)
            count = np.where(is_seen, counts[index], 0)
            probability = (count - discounts[np.minimum(count, 3)] + rest * probability) / total
        return np.log(probability)


def _find(sorted_keys: NDArray, keys: NDArray) -> tuple[NDArray, NDArray]:
    """The index of each key in `sorted_keys`, and whether the key is there."""
    index = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return index, sorted_keys[index] == keys


def estimate_discounts(counts: ArrayLike) -> Discounts:
    """D_1, D_2 and D_3+ by Chen & Goodman's Eq. 26 from the n-grams' counts.

    With n_k n-grams of count k and Y = n_1 / (n_1 + 2 n_2): D_k = k - (k + 1) Y n_{k+1} / n_k.
    Returns `FALLBACK_DISCOUNTS` where an n_k is 0 or a D_k is not between 0 and k.
    """
    n1, n2, n3, n4 = (int(np.count_nonzero(np.asarray(counts) == k)) for k in (1, 2, 3, 4))
    if not n1 * n2 * n3:
        return FALLBACK_DISCOUNTS
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    is_usable = all(0 <= value <= k for k, value in enumerate(found, start=1))
    return found if is_usable else FALLBACK_DISCOUNTS


def baselines(
    scored: ScoredText, paths: Iterable[Path], validation: Path | None = None
) -> Iterator[dict[str, Any]]:
    """The report's rows of all baselines; warnings are appended to `scored.warnings`.

    A row also has the perplexity a word on the training text, `training_perplexity`, and on
    validation text, `validation_perplexity` (None without one): an n-gram model knows its training
    text far better than any other.

    Args:
        scored: the text to score.
        paths: training texts, of which words are counted.
        validation: another text; None: there is none.

    Raises:
        ValueError: the text to score isn't known, or a text is empty.
        OSError: a file can't be read.
    """
    for path in paths:
        if scored.lines is None:
            raise ValueError("baselines are over words: give --text FILE as well")
        counts = count_text(" ".join(line.split()) for line in scored.lines)
        train = text_to_score(path)
        words = dict.fromkeys(word for line in train for word in line.split())
        indices = {word: number for number, word in enumerate(words)}
        # The end of a line is no word, not even </s>; an unknown word is the text's own <unk>.
        unknown, end = indices.setdefault(UNKNOWN, len(indices)), len(indices)
        tokens = number_lines(scored.lines, indices, unknown, end)
        scored.warnings.extend(unknown_warning(f"the words of {path}", tokens))
        texts = {"training_perplexity": train}
        texts["validation_perplexity"] = [] if validation is None else text_to_score(validation)
        numbered = {k: number_lines(lines, indices, unknown, end) for k, lines in texts.items()}
        for name, order in ORDERS.items():
            model = NgramModel(numbered["training_perplexity"].numbers, order, end + 1, start=end)
            others: dict[str, float | None] = dict.fromkeys(texts)
            for kind, text in numbered.items():
                if len(text.numbers):
                    log_p = model.log_probabilities(text.numbers)
                    others[kind] = perplexity(cross_entropy_rate(log_p) / math.log(2))
            log_p = model.log_probabilities(tokens.numbers)
            yield result(name, "words", log_p, counts, unknown=tokens.unknown, **others)
