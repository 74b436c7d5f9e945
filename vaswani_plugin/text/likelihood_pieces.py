"""Learns word pieces as in Schuster and Nakajima (2012), which Wu et al. (2016) cite.

The inventory begins with the letters. The likelihood of the training text is that of a unigram
model of the pieces. Each step merges the pair of neighbours that raises this likelihood most, until
the inventory is full. Let c_x be the count of the piece x, N the sum of all counts, n the count of
the pair (a, b), and f(x) = x log x. Merging all occurrences of the pair raises log P by exactly

    f(n) + f(c_a - n) - f(c_a) + f(c_b - n) - f(c_b) - f(N - n) + f(N),

with c_a - 2 n if a and b are the same piece. BPE merges the most frequent pair instead.

Axes: P pairs.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

LONGEST_PIECE = 16
"""Longest piece in letters, as in sentencepiece."""
LEAST_GAIN = 1e-9
"""Smallest gain of a merge in nats; a smaller one is rounding error."""


def learn_merges(
    words: Mapping[tuple[str, ...], int], count: int, taken: set[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Yields the pairs to merge, in order; each raises the likelihood most at its step.

    Args:
        words: each word's letters, and how often it occurs. An empty letter is in no piece.
        count: number of merges; each makes a new piece.
        taken: pieces that no merge may make.

    Yields:
        Pairs; fewer than `count` if no further pair raises the likelihood.
    """
    inventory = _Inventory(words, taken or set())
    for _ in range(count):
        pair = inventory.best_pair()
        if pair is None:
            return
        yield pair
        inventory.merge(pair)


class _Inventory:
    """The words as pieces, with the counts from which the gain is computed.

    Attributes:
        words: each word's pieces.
        frequency: count of each word.
        places: by pair, the words that hold it.
    """

    def __init__(self, words: Mapping[tuple[str, ...], int], taken: set[str]) -> None:
        self.taken = taken
        ordered = sorted(words.items())
        self.words = [list(word) for word, _ in ordered]
        self.frequency = [frequency for _, frequency in ordered]
        self.pieces = _Counts()  # c_x
        self.pairs = _Counts()  # n
        self.sides = np.zeros((2, 1024), dtype=np.int64)  # rows of each pair's pieces
        self.places: dict[tuple[str, str], set[int]] = defaultdict(set)
        for number in range(len(self.words)):
            self._count(number, 1)

    def _count(self, number: int, sign: int) -> None:
        """Add a word's pieces and pairs to the counts (sign 1), or subtract them (sign -1)."""
        word, frequency = self.words[number], sign * self.frequency[number]
        for piece in word:
            self.pieces.add(piece, frequency)
        for pair in merged_apart(word):
            if self._may_merge(pair):
                row = self.pairs.add(pair, frequency)
                if row == self.sides.shape[1]:
                    self.sides = np.concatenate((self.sides, np.zeros_like(self.sides)), axis=1)
                self.sides[:, row] = [self.pieces.rows[piece] for piece in pair]
                (self.places[pair].add if sign > 0 else self.places[pair].discard)(number)

    def _may_merge(self, pair: tuple[str, str]) -> bool:
        piece = "".join(pair)
        return all(pair) and len(piece) <= LONGEST_PIECE and piece not in self.taken

    def best_pair(self) -> tuple[str, str] | None:
        """The pair that raises the likelihood most; among equals, the alphabetically first."""
        present = np.flatnonzero(self.pairs.counts)
        if not len(present):
            return None
        first, second = self.sides[:, present]
        counts = self.pieces.counts.astype(np.float64)
        n, of_first, of_second = self.pairs.counts[present], counts[first], counts[second]
        gains = likelihood_gain(n, of_first, of_second, first == second, counts.sum())
        if gains.max() <= LEAST_GAIN:
            return None
        return min(self.pairs.names[row] for row in present[gains == gains.max()])

    def merge(self, pair: tuple[str, str]) -> None:
        """Replace the pair by one piece in every word.

        The same letters between two borders of pieces are always divided in the same way. So no
        other pair can make this piece.
        """
        for number in sorted(self.places[pair]):
            self._count(number, -1)
            self.words[number] = merge_pair(self.words[number], pair)
            self._count(number, 1)


class _Counts:
    """Counts by name, stored in an array with one row for each name.

    Attributes:
        rows: row of each name.
        names: name of each row.
        counts: count of each row; unused rows at the end are 0.
    """

    def __init__(self) -> None:
        self.rows: dict = {}
        self.names: list = []
        self.counts = np.zeros(1024, dtype=np.int64)

    def add(self, name: str | tuple[str, str], count: int) -> int:
        """Add to a name's count; returns its row. A new name gets a new row."""
        row = self.rows.setdefault(name, len(self.names))
        if row == len(self.names):
            self.names.append(name)
            if row == len(self.counts):
                self.counts = np.concatenate((self.counts, np.zeros_like(self.counts)))
        self.counts[row] += count
        return row


def likelihood_gain(
    n: np.ndarray, of_first: np.ndarray, of_second: np.ndarray, same: np.ndarray, total: float
) -> np.ndarray:
    """Computes how much merging each pair adds to log P of the text.

    Args:
        n: count of each pair, (P,).
        of_first, of_second: c_a and c_b, (P,).
        same: whether a equals b, (P,).
        total: N.

    Returns:
        The gain of each pair in nats, (P,).
    """
    once = _f(of_first - n) - _f(of_first) + _f(of_second - n) - _f(of_second)
    twice = _f(of_first - 2 * n) - _f(of_first)
    return _f(n) + np.where(same, twice, once) - _f(total - n) + _f(total)


def _f(x: np.ndarray | float) -> np.ndarray:
    """x log x; 0 for x <= 0 (negative x occurs only in values that are not used)."""
    x = np.maximum(x, 0)
    return x * np.log(np.where(x > 0, x, 1))


def merged_apart(word: list[str]) -> Iterator[tuple[str, str]]:
    """Yields a word's neighbours without overlaps: (a, a) occurs once in a a a, not twice."""
    before: tuple[str, str] | None = None
    for pair in zip(word, word[1:], strict=False):
        if pair[0] == pair[1] and pair == before:
            before = None
            continue
        yield pair
        before = pair


def merge_pair(word: list[str], pair: tuple[str, str]) -> list[str]:
    """Replaces each occurrence of the pair in the word, from left to right, by one piece."""
    merged: list[str] = []
    place = 0
    while place < len(word):
        if tuple(word[place : place + 2]) == pair:
            merged.append("".join(pair))
            place += 2
        else:
            merged.append(word[place])
            place += 1
    return merged
