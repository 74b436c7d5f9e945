"""Byte-pair encoding (Sennrich et al. 2016) by subword-nmt: learns joint codes, applies them.

    bpe.py learn --input train.en train.de --operations 10000 --output codes
    bpe.py apply --codes codes --input train.en --output train.bpe.en

One table for both languages: all inputs of `learn` are counted together. The results are those of
subword-nmt's own commands, byte for byte. `sed 's/@@ //g'` undoes `apply`.
"""

import argparse
import io
import os
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr
from functools import partial

from corpus_io import InputError, read_lines, run, write_atomically
from normalize_tokenize import process_file
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe


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


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    learning = commands.add_parser("learn", help="learn merge operations")
    learning.add_argument("--input", nargs="+", required=True, help="texts, plain or .gz")
    learning.add_argument("--output", required=True, help="the codes")
    learning.add_argument("--operations", type=int, default=10000, help="merges (default 10000)")
    learning.add_argument("--min-frequency", type=int, default=2, help="stop below (default 2)")
    applying = commands.add_parser("apply", help="split words into subwords")
    applying.add_argument("--codes", required=True, help="from `learn`")
    applying.add_argument("--input", default="-", help="plain or .gz (default: standard input)")
    applying.add_argument("--output", default="-", help="(default: standard output)")
    applying.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    args = parser.parse_args()
    if args.command == "learn":
        if args.operations < 1:
            raise InputError(f"--operations {args.operations}: must be at least 1")
        count = learn(args.input, args.operations, args.min_frequency, args.output)
        print(f"{count} merge operations: {args.output}")
    else:
        if args.workers < 1:
            raise InputError(f"--workers {args.workers}: must be at least 1")
        # Read here too: an error in a worker would come back without its one clear line.
        load_codes(args.codes)
        process_file(partial(make_encoder, args.codes), args.input, args.output, args.workers)


if __name__ == "__main__":
    run(main)
