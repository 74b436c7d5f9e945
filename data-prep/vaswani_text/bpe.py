"""Byte-pair encoding (Sennrich et al. 2016) by subword-nmt: joint codes, learned and applied.

The results are those of subword-nmt's own commands, byte for byte.
"""

import io
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from vaswani_text.corpus_io import InputError, read_lines, write_atomically


def count_words(paths: list[str]) -> Counter[str]:
    """Counts the words (between spaces) of all files.

    Raises:
        InputError: a file holds no word.
    """
    counts: Counter[str] = Counter()
    for path in paths:
        total = counts.total()
        for line in read_lines(path):
            counts.update(word for word in line.strip("\r\n ").split(" ") if word)
        if counts.total() == total:
            raise InputError(f"{path}: the file holds no words")
    return counts


def learn(paths: list[str], operations: int, min_frequency: int, output: str) -> int:
    """Learns merge operations from all files together; returns how many there were to learn.

    Raises:
        InputError: nothing to learn from.
    """
    counts = count_words(paths)
    if all(len(word) == 1 for word in counts):
        raise InputError(f"{', '.join(paths)}: every word has one letter, nothing to merge")
    entries = [f"{word} {count}" for word, count in counts.items()]
    codes = io.StringIO()
    # subword-nmt draws its progress bar in log files too: let it only where someone watches.
    quiet = nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO())
    with quiet:
        learn_bpe(entries, codes, operations, min_frequency, is_dict=True)
    lines = codes.getvalue().removesuffix("\n").split("\n")
    with write_atomically(output) as write:
        for line in lines:
            write(line)
    return len(lines) - 1


def load_codes(path: str) -> BPE:
    """Reads a table of merge operations.

    Raises:
        InputError: the file is no such table; names the line.
    """
    lines = list(read_lines(path))
    if not lines or not lines[0].startswith("#version:"):
        raise InputError(f"{path}: no BPE codes (first line must be '#version: 0.2')")
    for number, line in enumerate(lines[1:], start=2):
        if len(line.strip("\r\n ").split(" ")) != 2:
            raise InputError(f"{path}:{number}: a line of BPE codes holds two units, not {line!r}")
    return BPE(io.StringIO("\n".join(lines) + "\n"))


def make_encoder(path: str) -> Callable[[str], str]:
    """Returns the function from a line to its subwords."""
    return load_codes(path).process_line
