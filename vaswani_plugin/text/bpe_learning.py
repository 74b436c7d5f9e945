"""Learns the codes of byte-pair encoding (Sennrich et al. 2016), of words or of bytes.

subword-nmt's own functions learn them, so they are equal byte for byte; only its search for the
most frequent pair, which goes through all pairs for every merge, is a heap here (8 against 66
seconds for 37,000 merges of 200,000 lines).
"""

import heapq
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.outputs import write_atomically
from vaswani_plugin.files.parallel import process_file, word_counts
from vaswani_plugin.text.bpe import WORD_END, Pair
from vaswani_plugin.text.coding import to_letters
from vaswani_plugin.text.raw_text import composed

# UTF-8 bytes sort like the characters that they encode, and no byte is above 0xf4.
_INVERTED = bytes((254 - byte) % 256 for byte in range(256))


@lru_cache(1 << 17)
def _order(symbol: str) -> bytes:
    """Sorts symbols in inverted order."""
    return symbol.encode().translate(_INVERTED) + b"\xff"


class _Pairs(dict[Pair, int]):
    """Counts of pairs from a threshold on; knows the most frequent pair."""

    def __init__(self, counts: dict[Pair, int], threshold: float) -> None:
        super().__init__()
        self._heap: list[tuple[int, bytes, bytes, Pair]] = []
        self.threshold = threshold
        for pair, count in counts.items():
            if count >= threshold:
                self[pair] = count

    def __missing__(self, pair: Pair) -> int:
        return 0

    def __setitem__(self, pair: Pair, count: int) -> None:
        super().__setitem__(pair, count)
        if count >= self.threshold and count > 0:
            # Of equally frequent pairs the greatest comes first, as in subword-nmt.
            heapq.heappush(self._heap, (-count, _order(pair[0]), _order(pair[1]), pair))

    def top(self) -> Pair | None:
        """The most frequent pair; None if no pair reaches the threshold."""
        # An entry of the heap stays when its pair's count changes.
        while self._heap and self[self._heap[0][3]] != -self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][3] if self._heap else None


def learn_merges(counts: dict[str, int], operations: int, min_frequency: int) -> Iterator[Pair]:
    """Yields the pairs to merge, in order, as subword-nmt's `learn_bpe` writes them.

    `counts` are of words. At most `operations`, none of a pair rarer than `min_frequency`.
    """
    from subword_nmt import learn_bpe  # applying codes does not need it

    ordered = sorted(counts.items(), key=lambda item: item[1], reverse=True)
    vocabulary = [((*word[:-1], word[-1] + WORD_END), count) for word, count in ordered]
    frequencies, indices = learn_bpe.get_pair_statistics(vocabulary)
    if not frequencies:
        return
    rare = frequencies.copy()
    pairs = _Pairs(frequencies, max(frequencies.values()) / 10)
    for done in range(operations):
        pair = pairs.top()
        if pair is None:
            # Pairs below the threshold were set aside; what became more frequent is among them.
            learn_bpe.prune_stats(pairs, rare, pairs.threshold)
            pairs = _Pairs(rare, max(rare.values()) * done / (done + 10000.0))
            learn_bpe.prune_stats(rare.copy(), rare, pairs.threshold)
            pair = pairs.top()
        if pair is None or pairs[pair] < min_frequency:
            return
        yield pair
        changes = learn_bpe.replace_pair(pair, vocabulary, indices)
        learn_bpe.update_pair_statistics(pair, changes, pairs, indices)
        pairs[pair] = 0
        if done % 100 == 0:
            learn_bpe.prune_stats(pairs, rare, pairs.threshold)


def learn(
    paths: list[str], operations: int, min_frequency: int, output: str, workers: int = 1
) -> int:
    """Learns as `learn_merges` does of all files together, into a file; returns how many."""
    from tqdm import tqdm

    counts = word_counts(paths, workers, " ")
    for word in [word for word in counts if composed(word) != word]:
        counts[composed(word)] += counts.pop(word)
    merges = learn_merges(counts, operations, min_frequency)
    learned = 0
    with write_atomically(output) as write:
        write("#version: 0.2")
        shown = tqdm(merges, total=operations, disable=None)
        for learned, pair in enumerate(shown, start=1):  # noqa: B007
            write(" ".join(pair))
        if not learned:
            raise UserError(f"no pair comes {min_frequency} times: give more text")
    return learned


def _letters_encoder(exact: bool) -> Callable[[str], str]:
    return to_letters if exact else lambda line: to_letters(composed(line))


def learn_codes(files: list[str], operations: int, output: str, workers: int, exact: bool) -> None:
    """Learns BPE of the bytes (coding.py) of all raw files, as they are (`exact`) or composed."""
    with TemporaryDirectory(dir=Path(output).parent) as folder:
        letters = [f"{folder}/{number}" for number in range(len(files))]
        for source, target in zip(files, letters, strict=True):
            process_file(partial(_letters_encoder, exact), source, target, workers)
        learn(letters, operations, 2, output, workers)
