"""N-gram language models to compare with: interpolated modified Kneser-Ney over token numbers.

Chen & Goodman (1999): a discount D_1, D_2 or D_3+ is subtracted from each count. The discounted
mass of a context goes to the next lower order. Lower orders do not count the occurrences of an
n-gram, but the different contexts in which it was seen. The lowest order interpolates with the
uniform distribution, so that every token of the vocabulary has a probability above 0. Order 1 is a
unigram model with absolute discounting, order 0 the uniform distribution.

No maintained library does this for millions of words in Python. nltk's `KneserNeyInterpolated`
loops over all contexts for every score (a day for wikitext-2). The kenlm package, which has no
wheels, reads models but does not estimate them. This is an implementation in NumPy. Tests compare
it with nltk (whose formula has one discount, and none at the lowest order) and with Chen &
Goodman's definition.

Axes: N tokens, G distinct n-grams of an order, C distinct contexts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Discounts = tuple[float, float, float]
FALLBACK_DISCOUNTS: Discounts = (0.5, 1.0, 1.5)
"""Used where the counts of counts give no discounts, as for a vocabulary of 65 characters."""


@dataclass(frozen=True)
class _Order:
    """One order: sorted n-grams and contexts, each packed into one number.

    Args:
        ngrams: (G,), sorted. counts: (G,).
        contexts: contexts of the n-grams, (C,), sorted.
        totals: sum of the counts in each context, (C,).
        left_over: sum of the discounts in each context, (C,).
        discounts: (4,), for counts of 0, 1, 2, and 3 or more.
    """

    ngrams: NDArray[np.int64]
    counts: NDArray[np.int64]
    contexts: NDArray[np.int64]
    totals: NDArray[np.int64]
    left_over: NDArray[np.float64]
    discounts: NDArray[np.float64]

    def interpolate(
        self, ngrams: NDArray[np.int64], vocabulary: int, lower: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """P of each n-gram's last token in its context, interpolated with the lower order's P."""
        index, is_seen = _find(self.contexts, ngrams // vocabulary)
        total = np.where(is_seen, self.totals[index], 1)
        left_over = np.where(is_seen, self.left_over[index], 1.0)
        index, is_seen = _find(self.ngrams, ngrams)
        counts = np.where(is_seen, self.counts[index], 0)
        return (counts - self.discounts[np.minimum(counts, 3)] + left_over * lower) / total


def _find(sorted_keys: NDArray, keys: NDArray) -> tuple[NDArray, NDArray]:
    """The index of each key in `sorted_keys`, and whether the key is there."""
    index = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return index, sorted_keys[index] == keys


class NgramModel:
    """An n-gram model of the given order, estimated from a stream of tokens.

    The stream is padded on the left with `start` tokens. Contexts cross line ends.

    Args:
        tokens: training text, (N,) numbers below `vocabulary`.
        order: 3 for trigrams; 0 is the uniform distribution.
        vocabulary: number of different tokens.
        start: the token before the first one, such as the end of a line.
        discounts: D_1, D_2 and D_3+ of each order from 1 on; estimated from the counts when None.

    Raises:
        ValueError: no text; a token outside the vocabulary; too many n-grams for 64-bit numbers.
    """

    def __init__(
        self,
        tokens: ArrayLike,
        order: int,
        vocabulary: int,
        start: int,
        discounts: Sequence[Discounts] | None = None,
    ) -> None:
        tokens = _checked(tokens, vocabulary)
        if vocabulary ** max(order, 1) > np.iinfo(np.int64).max:
            raise ValueError(f"{order}-grams of {vocabulary:,} types are too many to be numbered")
        self.order, self.vocabulary, self.start = order, vocabulary, start
        self._orders: list[_Order] = []
        occurrences = self._ngrams(tokens, order)
        for length in range(order, 0, -1):
            ngrams, counts = np.unique(occurrences, return_counts=True)
            given = None if discounts is None else discounts[length - 1]
            self._orders.insert(0, _make_order(ngrams, counts, vocabulary, given))
            occurrences = ngrams % vocabulary ** (length - 1)  # each once: contexts are counted

    def _ngrams(self, tokens: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """The n-gram that ends with each token, (N,)."""
        padded = np.concatenate([np.full(max(length - 1, 0), self.start), tokens])
        packed = np.zeros(len(tokens), np.int64)
        for offset in range(length):
            packed = packed * self.vocabulary + padded[offset : offset + len(tokens)]
        return packed

    def log_probabilities(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """Natural logarithm of each token's probability, given the preceding tokens.

        Args:
            tokens: a stream, (N,).

        Returns:
            (N,).

        Raises:
            ValueError: no token, or one outside the vocabulary.
        """
        tokens = _checked(tokens, self.vocabulary)
        probability = np.full(len(tokens), 1 / self.vocabulary)
        for length, order in enumerate(self._orders, start=1):
            ngrams = self._ngrams(tokens, length)
            probability = order.interpolate(ngrams, self.vocabulary, probability)
        return np.log(probability)


def _checked(tokens: Any, vocabulary: int) -> NDArray[np.int64]:
    tokens = np.asarray(tokens, np.int64)
    if not len(tokens):
        raise ValueError("the text has no tokens")
    for token in (tokens.min(), tokens.max()):
        if not 0 <= token < vocabulary:
            raise ValueError(f"token {token} is outside the vocabulary of {vocabulary}")
    return tokens


def _make_order(
    ngrams: NDArray[np.int64], counts: NDArray[np.int64], vocabulary: int, given: Discounts | None
) -> _Order:
    contexts, first = np.unique(ngrams // vocabulary, return_index=True)
    discounts = np.array([0.0, *(estimate_discounts(counts) if given is None else given)])
    taken = discounts[np.minimum(counts, 3)]
    return _Order(
        ngrams,
        counts,
        contexts,
        np.add.reduceat(counts, first),
        np.add.reduceat(taken, first),
        discounts,
    )


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
