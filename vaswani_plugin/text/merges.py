"""Learns which pairs of symbols byte-pair encoding merges; faster than subword-nmt, same result.

The codes equal subword-nmt's, so this module counts exactly as subword-nmt does, also where its
counts are not exact: pairs that have become rare are set aside and counted again from zero, and a
symbol that two different merges produce is counted twice. Only the search for the most frequent
pair differs: subword-nmt goes through all pairs for every merge, this module uses a heap.
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Iterator

Pair = tuple[str, str]
Word = tuple[str, ...]
Entry = tuple[int, bytes, bytes, Pair]

# UTF-8 bytes sort like the characters that they encode, and no byte is above 0xf4.
_INVERTED = bytes((254 - byte) % 256 for byte in range(256))


def _merged(word: Word, first: str, second: str) -> tuple[Word, list[int]]:
    """Merges the pair from left to right; returns the word and where its occurrences began."""
    symbols: list[str] = []
    starts: list[int] = []
    last = len(word) - 1
    position = 0
    while position <= last:
        if word[position] == first and position < last and word[position + 1] == second:
            starts.append(position)
            symbols.append(first + second)
            position += 2
        else:
            symbols.append(word[position])
            position += 1
    return tuple(symbols), starts


def _merged_as_text(word: Word, first: str, second: str) -> Word:
    """Merges the pair as subword-nmt does, which takes a U+00A0 in a symbol for white space."""
    pattern = rf"(?<!\S){re.escape(f'{first} {second}')}(?!\S)"
    return tuple(re.sub(pattern, lambda _: first + second, " ".join(word)).split(" "))


class _Pairs:
    """Counts of neighbouring symbols, and the words that have them.

    Attributes:
        counts: by pair, the number of occurrences, without the pairs that were set aside.
        rare: by pair, its count when it was last set aside.
        words: by pair and word index, the occurrences in this word.
    """

    def __init__(self, counts_of_words: dict[str, int]) -> None:
        ordered = sorted(counts_of_words.items(), key=lambda item: item[1], reverse=True)
        self.vocabulary: list[tuple[Word, int]] = [
            ((*word[:-1], word[-1] + "</w>"), count) for word, count in ordered
        ]
        self.counts: defaultdict[Pair, int] = defaultdict(int)
        self.words: defaultdict[Pair, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        for index, (word, count) in enumerate(self.vocabulary):
            for pair in zip(word, word[1:], strict=False):
                self.counts[pair] += count
                self.words[pair][index] += 1
        self.rare = self.counts.copy()
        self._spaced = {i for i, word in enumerate(ordered) if word[0].split() != [word[0]]}
        self._reversed: dict[str, bytes] = {}
        self._heap: list[Entry] = []
        self.threshold: float = max(self.counts.values()) / 10
        self._fill_heap()

    def _order(self, symbol: str) -> bytes:
        """Key with inverted order: among equally frequent pairs, the heap returns the greatest."""
        order = self._reversed.get(symbol)
        if order is None:
            order = symbol.encode("utf-8").translate(_INVERTED) + b"\xff"
            self._reversed[symbol] = order
        return order

    def _entry(self, pair: Pair, count: int) -> Entry:
        return -count, self._order(pair[0]), self._order(pair[1]), pair

    def _fill_heap(self) -> None:
        self._heap = [
            self._entry(pair, count)
            for pair, count in self.counts.items()
            if count >= self.threshold and count > 0
        ]
        heapq.heapify(self._heap)

    def _take_top(self) -> Pair | None:
        """Removes and returns the most frequent pair not below the threshold, or None.

        A heap entry stays when its pair's count falls; it is checked when it reaches the top.
        """
        while self._heap:
            entry = heapq.heappop(self._heap)
            count = self.counts.get(entry[3], 0)
            if count == -entry[0]:
                return entry[3]
            if self.threshold <= count < -entry[0] and count > 0:
                heapq.heappush(self._heap, self._entry(entry[3], count))
        return None

    def most_frequent(self, done: int) -> Pair | None:
        """The pair to merge after `done` merges; None if no pair remains."""
        pair = self._take_top()
        if pair is None:
            self.move_rare_pairs()
            self.counts = self.rare.copy()
            highest = max(self.counts.values(), default=0)
            self.threshold = highest * done / (done + 10000.0)
            self.move_rare_pairs()
            self._fill_heap()
            pair = self._take_top()
        return pair

    def move_rare_pairs(self) -> None:
        """Moves the pairs below the threshold from `counts` to `rare`."""
        for pair, count in list(self.counts.items()):
            if count < self.threshold:
                del self.counts[pair]
                if count < 0:
                    self.rare[pair] += count
                else:
                    self.rare[pair] = count

    def merge(self, pair: Pair) -> None:
        """Merges a pair in all words and brings the counts up to date."""
        first, second = pair
        new = first + second
        indices = [index for index, times in self.words[pair].items() if times > 0]
        self.words[pair] = defaultdict(int)
        grown: set[Pair] = set()
        for index in indices:
            word, count = self.vocabulary[index]
            merged, starts = _merged(word, first, second)
            if index in self._spaced:
                merged = _merged_as_text(word, first, second)
            self.vocabulary[index] = merged, count
            self._subtract(word, starts, pair, index, count)
            last = len(merged) - 1
            for position, symbol in enumerate(merged):
                if symbol == new:
                    if position:
                        grown.add(self._add(merged[position - 1 : position + 1], index, count))
                    if position < last and merged[position + 1] != new:
                        grown.add(self._add(merged[position : position + 2], index, count))
        self.counts[pair] = 0
        for pair in grown:
            count = self.counts[pair]
            if count >= self.threshold and count > 0:
                heapq.heappush(self._heap, self._entry(pair, count))

    def _subtract(self, word: Word, starts: list[int], pair: Pair, index: int, count: int) -> None:
        for start in starts:
            if start:
                self._add(word[start - 1 : start + 1], index, -count, -1)
            # If the pair follows directly, its next occurrence subtracts the pair between them.
            if start + 2 < len(word) and word[start + 2 : start + 4] != pair:
                self._add(word[start + 1 : start + 3], index, -count, -1)

    def _add(self, pair: Pair, index: int, count: int, times: int = 1) -> Pair:
        self.counts[pair] += count
        self.words[pair][index] += times
        return pair


def learn_merges(
    counts: dict[str, int], operations: int, min_frequency: int
) -> Iterator[tuple[str, str]]:
    """Yields the pairs to merge, in order, as subword-nmt's `learn_bpe` writes them.

    Args:
        counts: frequency of each word; at least one word has two letters.
        operations: number of pairs, at most.
        min_frequency: stop at a pair rarer than this; at least 1.
    """
    pairs = _Pairs(counts)
    for done in range(operations):
        pair = pairs.most_frequent(done)
        if pair is None or pairs.counts[pair] < min_frequency:
            return
        yield pair
        pairs.merge(pair)
        if done % 100 == 0:
            pairs.move_rare_pairs()
