"""Byte-pair encoding (Sennrich et al. 2016): joint codes, learned and applied.

The results equal those of subword-nmt's commands byte for byte, because its own segmentation
encodes each word, once. Two details follow. Its commands also end a line where `str.splitlines`
does, so that a U+2028 in a word makes two words of it. They keep spaces at the ends of lines but
not double spaces inside. Only line ends differ: "\\r\\n" is written as "\\n".
"""

import io
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from subword_nmt.apply_bpe import BPE
from tqdm import tqdm

from vaswani_plugin.text.corpus_io import MOST_DIGITS, read_lines
from vaswani_plugin.text.long_words import Table
from vaswani_plugin.text.merges import learn_merges
from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.output_files import write_atomically
from vaswani_plugin.text.parallel import Block, map_blocks, process_file, write_results

# Words in the cache of a process: about 60 MB. Longer words seldom repeat and are not cached.
REMEMBERED_WORDS = 1 << 18
LONGEST_REMEMBERED = 40
# Larger than the blocks of other steps, so that there are fewer results to add up.
COUNTED_BYTES = 1 << 21


def _count_block(block: Block) -> Counter[str]:
    text = block.text()
    lines = text.splitlines(keepends=True)
    if len(lines) != text.count("\n"):
        text = "\n".join(line.strip("\r\n ") for line in lines)
    counts = Counter(text.replace("\n", " ").split(" "))
    del counts[""]
    return counts


def _block_counter() -> Callable[[Block], Counter[str]]:
    return _count_block


def count_words(paths: Iterable[str], workers: int = 1) -> Counter[str]:
    """Counts the words (between spaces) of all files, in the order of their first occurrences.

    Args:
        paths: the files, plain or `.gz`.
        workers: number of processes.

    Raises:
        InputError: a file holds no word.
    """
    counts: Counter[str] = Counter()
    for path in paths:
        found = False
        for block in map_blocks(_block_counter, path, workers, COUNTED_BYTES):
            counts.update(block)
            found = found or bool(block)
        if not found:
            raise InputError(f"{path}: the file holds no words")
    return counts


def learn(
    paths: list[str], operations: int, min_frequency: int, output: str, workers: int = 1
) -> int:
    """Learns merge operations from all files together; returns how many were learned.

    Args:
        paths: the training text, all languages together.
        operations: merge operations to learn, at most.
        min_frequency: stop at a pair that is rarer than this.
        output: file for the codes.
        workers: number of processes.

    Raises:
        InputError: the files have nothing to learn from.
    """
    counts = count_words(paths, workers)
    if all(len(word) == 1 for word in counts):
        raise InputError(f"{', '.join(paths)}: every word has one letter, nothing to merge")
    learned = 0
    with write_atomically(output) as write:
        write("#version: 0.2")
        merges = learn_merges(counts, operations, min_frequency)
        for pair in tqdm(merges, total=operations, disable=None):
            write(" ".join(pair))
            learned += 1
        if not learned:
            raise InputError(
                f"{', '.join(paths)}: no pair of letters comes {min_frequency} times, nothing to "
                "merge: give more text, or a lower --min-frequency"
            )
    return learned


def write_vocabulary(source: str, output: str, workers: int = 1) -> int:
    """Writes the units of a text with their counts, most frequent first; returns how many units.

    Raises:
        InputError: the text holds no word.
    """
    counts = count_words([source], workers)
    with write_atomically(output) as write:
        for word, count in counts.most_common():
            write(f"{word} {count}")
    return len(counts)


def read_vocabulary(path: str, threshold: int) -> set[str]:
    """Reads the units of a vocabulary that occur at least `threshold` times.

    Raises:
        InputError: the file is no vocabulary; the message names the line.
    """
    units = set()
    for number, line in enumerate(read_lines(path), start=1):
        unit, _, count = line.strip("\r\n ").partition(" ")
        if not unit or not re.fullmatch(rf"[0-9]{{1,{MOST_DIGITS}}}", count):
            raise InputError(
                f"{path}:{number}: a line of a vocabulary holds a unit and its frequency, not "
                f"{line!r}: make it with `bpe.py vocabulary`"
            )
        if int(count) >= threshold:
            units.add(unit)
    if not units:
        raise InputError(f"{path}: no unit occurs {threshold} times: lower --vocabulary-threshold")
    return units


def load_codes(path: str, vocabulary: str | None = None, threshold: int = 0) -> BPE:
    """Reads a table of merge operations and, if given, the vocabulary that restricts it.

    Args:
        path: the codes.
        vocabulary: a file of units with their counts, or None.
        threshold: rarer units of the vocabulary count as missing.

    Raises:
        InputError: the file is no such table; the message names the line.
    """
    lines = list(read_lines(path))
    if not lines or lines[0].split() not in (["#version:", "0.1"], ["#version:", "0.2"]):
        raise InputError(f"{path}: not BPE codes (first line must be '#version: 0.2')")
    if len(lines) == 1:
        raise InputError(f"{path}: no merge in it: learn the codes again, from more text")
    for number, line in enumerate(lines[1:], start=2):
        if len(line.strip("\r\n ").split(" ")) != 2:
            raise InputError(f"{path}:{number}: a line of BPE codes holds two units, not {line!r}")
    units = read_vocabulary(vocabulary, threshold) if vocabulary else None
    return Table(io.StringIO("\n".join(lines) + "\n"), vocab=units)


def _encode(bpe: BPE, text: str, dropout: float = 0) -> str:
    """Encodes a text as subword-nmt's command does."""
    return "".join(bpe.process_line(line, dropout) for line in text.splitlines(keepends=True))


class _Words(dict[str, str]):
    """Maps a word to its units; caches short words."""

    def __init__(self, bpe: BPE) -> None:
        super().__init__()
        self._bpe = bpe

    def __missing__(self, word: str) -> str:
        units = _encode(self._bpe, word)
        self._bpe.cache.clear()
        if len(word) <= LONGEST_REMEMBERED:
            if len(self) >= REMEMBERED_WORDS:
                self.clear()
            self[word] = units
        return units


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
    bpe = load_codes(path, vocabulary, threshold)
    units_of = _Words(bpe).__getitem__

    def encode(line: str) -> str:
        words = line.split(" ")
        if "" in words or len(line.splitlines()) != 1:
            return _encode(bpe, line + "\n")[:-1]
        return " ".join(map(units_of, words))

    return encode


def _make_dropping_encoder(
    path: str, vocabulary: str | None, threshold: int, dropout: float, seed: int
) -> Callable[[Block], list[str]]:
    bpe = load_codes(path, vocabulary, threshold)

    def encode(block: Block) -> list[str]:
        # subword-nmt draws from this global generator. The seed depends on the block, not on the
        # worker: any number of workers gives the same units.
        random.seed(f"{seed} {block.first}")
        lines = [_encode(bpe, line + "\n", dropout)[:-1] for line in block.lines()]
        bpe.cache.clear()
        return lines

    return encode


def apply(
    codes: str,
    source: str,
    output: str,
    *,
    vocabulary: str | None = None,
    threshold: int = 0,
    dropout: float = 0,
    seed: int = 1,
    workers: int = 1,
) -> int:
    """Splits the words of a file into units; returns the number of lines.

    Args:
        codes: the table of merge operations.
        source: the text, plain or `.gz`.
        output: file for the units.
        vocabulary: as in `make_encoder`.
        threshold: as in `make_encoder`.
        dropout: probability of leaving out a merge (BPE-dropout, Provilkov et al. 2020). Each
            occurrence of a word is then split separately. For training text only.
        seed: of the dropout. The same seed and text give the same units with any number of workers.
        workers: number of processes.

    Raises:
        InputError: codes, vocabulary or text are invalid.
    """
    options = (codes, vocabulary, threshold)
    if not dropout:
        return process_file(partial(make_encoder, *options), source, output, workers)
    factory = partial(_make_dropping_encoder, *options, dropout, seed)
    return write_results(map_blocks(factory, source, workers), source, output)
