"""Byte-pair encoding (Sennrich et al. 2016): joint codes, learned and applied.

Codes are learned by subword-nmt's own functions, so they are equal byte for byte; only its search
for the most frequent pair, which goes through all pairs for every merge, is a heap here (8 against
66 seconds for 37,000 merges of 200,000 lines). Codes are applied by Hugging Face's `tokenizers`,
which gives the same units as subword-nmt in a third of the time, and in little more than linear
time for a word of any length. A vocabulary that limits the units is subword-nmt's; its command also
has BPE-dropout (`subword-nmt apply-bpe --dropout 0.1`).
"""

import heapq
import io
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.lines import read_lines

Pair = tuple[str, str]

_WORD_END = "</w>"
# UTF-8 bytes sort like the characters that they encode, and no byte is above 0xf4.
_INVERTED = bytes((254 - byte) % 256 for byte in range(256))


@lru_cache(1 << 17)
def _order(symbol: str) -> bytes:
    """Sorts symbols in inverted order."""
    return symbol.encode().translate(_INVERTED) + b"\xff"


class _Pairs(dict[Pair, int]):
    """Counts of pairs from a threshold on; knows the most frequent pair.

    An entry of the heap stays when its pair's count changes; it is checked at the top.
    """

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
        while self._heap and self[self._heap[0][3]] != -self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][3] if self._heap else None


def learn_merges(counts: dict[str, int], operations: int, min_frequency: int) -> Iterator[Pair]:
    """Yields the pairs to merge, in order, as subword-nmt's `learn_bpe` writes them.

    Args:
        counts: frequency of each word; at least one word has two letters.
        operations: number of pairs, at most.
        min_frequency: stop at a pair rarer than this; at least 1.
    """
    from subword_nmt import learn_bpe

    ordered = sorted(counts.items(), key=lambda item: item[1], reverse=True)
    vocabulary = [((*word[:-1], word[-1] + _WORD_END), count) for word, count in ordered]
    found, indices = learn_bpe.get_pair_statistics(vocabulary)
    rare = found.copy()
    pairs = _Pairs(found, max(found.values()) / 10)
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
    """Learns merge operations from all files together, for the file `output`; returns how many.

    Args:
        paths: the training text, all languages together.
        operations: merge operations to learn, at most.
        min_frequency: stop at a pair that is rarer than this.
        output: file for the codes.
        workers: number of processes that count.

    Raises:
        UserError: the files have nothing to learn from.
    """
    from tqdm import tqdm

    from vaswani_plugin.text.outputs import write_atomically
    from vaswani_plugin.text.parallel import word_counts  # only learning needs it

    counts = word_counts(paths, workers, " ")
    if all(len(word) == 1 for word in counts):
        raise UserError(f"{', '.join(paths)}: every word has one letter, nothing to merge")
    learned = 0
    with write_atomically(output) as write:
        write("#version: 0.2")
        merges = learn_merges(counts, operations, min_frequency)
        for pair in tqdm(merges, total=operations, disable=None):
            write(" ".join(pair))
            learned += 1
        if not learned:
            raise UserError(
                f"{', '.join(paths)}: no pair of letters comes {min_frequency} times, nothing to "
                "merge: give more text"
            )
    return learned


def read_merges(path: str) -> list[Pair]:
    """Reads a table of merge operations.

    Raises:
        UserError: the file is no such table; the message names the line.
    """
    lines = read_lines(path)
    if next(lines, "").split() != ["#version:", "0.2"]:
        raise UserError(f"{path}: not BPE codes (first line must be '#version: 0.2')")
    pairs: list[Pair] = []
    for number, line in enumerate(lines, start=2):
        units = line.strip("\r\n ").split(" ")
        if len(units) != 2:
            raise UserError(f"{path}:{number}: a line of BPE codes holds two units, not {line!r}")
        pairs.append((units[0], units[1]))
    if not pairs:
        raise UserError(f"{path}: no merge in it: learn the codes again, from more text")
    return pairs


def _word_splitter(path: str) -> Callable[[str], str]:
    """Returns the function from a word to its units, by Hugging Face's tokenizers."""
    from tokenizers.models import BPE

    first: dict[Pair, None] = dict.fromkeys(read_merges(path))  # a pair given twice: the first
    units = {"\0": 0}
    for left, right in first:
        for unit in (left, right, left + right):
            units.setdefault(unit, len(units))
    model = BPE(units, list(first), unk_token="\0", fuse_unk=False, end_of_word_suffix=_WORD_END)

    def split(word: str) -> str:
        raw = word.encode()
        places = (token.offsets for token in model.tokenize(word))
        return "@@ ".join(raw[start:end].decode() for start, end in places)

    return split


def _limited_splitter(path: str, vocabulary: str, threshold: int) -> Callable[[str], str]:
    """Returns the function from a word to its units of a vocabulary, by subword-nmt."""
    from subword_nmt.apply_bpe import BPE, read_vocabulary

    read_merges(path)  # refuses what is no table
    lines = list(read_lines(vocabulary))
    for number, line in enumerate(lines, 1):
        if not re.fullmatch(r"[^ ]+ [0-9]+", line.strip("\r\n ")):
            raise UserError(
                f"{vocabulary}:{number}: a line of a vocabulary holds a unit and its frequency: "
                "make it with `subword-nmt get-vocab`"
            )
    units = read_vocabulary(lines, threshold)
    if not units:
        raise UserError(
            f"{vocabulary}: no unit occurs {threshold} times: lower --vocabulary-threshold"
        )
    table = BPE(io.StringIO("\n".join([*read_lines(path), ""])), vocab=units)

    def split(word: str) -> str:
        table.cache.clear()  # it would grow without end
        return " ".join(table.segment_tokens([word]))

    return split


def make_encoder(
    path: str, vocabulary: str | None = None, threshold: int = 0
) -> Callable[[str], str]:
    """Returns the function from a line to its units.

    Args:
        path: the codes.
        vocabulary: a file of units with their counts. A unit that is not in it, or rarer than
            `threshold`, is split again until all its parts are in the vocabulary.
        threshold: the lowest count of a unit that is not split again.
    """
    splitter = (
        _limited_splitter(path, vocabulary, threshold) if vocabulary else _word_splitter(path)
    )
    split = lru_cache(1 << 16)(splitter)

    def encode(line: str) -> str:
        words = line.strip(" ")
        if not words:
            return line
        before = len(line) - len(line.lstrip(" "))
        units = " ".join([split(word) for word in words.split(" ") if word])
        return f"{line[:before]}{units}{line[before + len(words) :]}"

    return encode
