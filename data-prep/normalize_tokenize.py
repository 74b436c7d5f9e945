"""Normalizes punctuation and tokenizes by the rules of Moses, or undoes the tokenization.

    normalize_tokenize.py --language de --lowercase --input train.de.gz --output train.tok.de
    normalize_tokenize.py --language de --detokenize --input hypotheses.tok --output hypotheses

The order is that of the published Multi30k preprocessing: lower-case, normalize punctuation,
tokenize. Every input line gives exactly one output line.
"""

import argparse
import os
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import Pool
from multiprocessing.pool import AsyncResult

from corpus_io import InputError, in_chunks, read_lines, run, write_atomically
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer


def make_processor(
    language: str, lowercase: bool, normalize: bool, tokenize: bool, aggressive: bool, escape: bool
) -> Callable[[str], str]:
    """Returns the function from a raw line to a tokenized one.

    Args:
        language: two-letter code; decides on apostrophes, abbreviations and quotation marks.
        aggressive: split words at hyphens as well ("well-known": "well @-@ known").
        escape: write &, |, <, >, ', ", [ and ] as XML entities, as Moses does.
    """
    normalizer = MosesPunctNormalizer(lang=language)
    tokenizer = MosesTokenizer(lang=language)

    def process(line: str) -> str:
        if lowercase:
            line = line.lower()
        if normalize:
            line = normalizer.normalize(line)
        if tokenize:
            line = tokenizer.tokenize(
                line, aggressive_dash_splits=aggressive, return_str=True, escape=escape
            )
        # A line end hidden in a line (U+2028 and its like) would be one to a later reader.
        return " ".join(line.split())

    return process


def make_detokenizer(language: str) -> Callable[[str], str]:
    """Returns the function from a tokenized line, escaped or not, to running text."""
    detokenizer = MosesDetokenizer(lang=language)
    return lambda line: detokenizer.detokenize(line.split())


_process: Callable[[str], str]


def _start_worker(factory: Callable[[], Callable[[str], str]]) -> None:
    global _process
    _process = factory()


def _process_chunk(lines: list[str]) -> list[str]:
    return [_process(line) for line in lines]


def _in_parallel(
    factory: Callable[[], Callable[[str], str]], lines: Iterator[str], workers: int
) -> Iterator[str]:
    with Pool(workers, _start_worker, (factory,)) as pool:
        # `imap` would read the whole corpus ahead of the workers; this holds a few chunks.
        pending: deque[AsyncResult[list[str]]] = deque()
        for chunk in in_chunks(lines):
            pending.append(pool.apply_async(_process_chunk, (chunk,)))
            if len(pending) > 4 * workers:
                yield from pending.popleft().get()
        while pending:
            yield from pending.popleft().get()


def process_file(
    factory: Callable[[], Callable[[str], str]], source: str, output: str, workers: int
) -> int:
    """Runs a line function, built once in each worker, over a file; returns the line count.

    Raises:
        InputError: the file is empty or can't be read as text.
    """
    count = 0
    lines = read_lines(source)
    results = map(factory(), lines) if workers == 1 else _in_parallel(factory, lines, workers)
    with write_atomically(output) as write:
        for line in results:
            write(line)
            count += 1
        if count == 0:
            raise InputError(f"{source}: the file is empty")
    return count


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--language", required=True, help="two-letter code, such as en, de, fr")
    parser.add_argument("--input", default="-", help="plain or .gz (default: standard input)")
    parser.add_argument("--output", default="-", help="plain or .gz (default: standard output)")
    parser.add_argument("--lowercase", action="store_true")
    parser.add_argument("--no-normalize", action="store_true", help="leave punctuation as it is")
    parser.add_argument("--no-tokenize", action="store_true", help="only normalize")
    parser.add_argument("--no-escape", action="store_true", help="no XML entities")
    parser.add_argument("--aggressive", action="store_true", help="split at hyphens: a @-@ b")
    parser.add_argument("--detokenize", action="store_true", help="from tokens to running text")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    args = parser.parse_args()
    if args.workers < 1:
        raise InputError(f"--workers {args.workers}: must be at least 1")
    if args.detokenize:
        factory = partial(make_detokenizer, args.language)
    else:
        factory = partial(
            make_processor,
            args.language,
            args.lowercase,
            not args.no_normalize,
            not args.no_tokenize,
            args.aggressive,
            not args.no_escape,
        )
    process_file(factory, args.input, args.output, args.workers)


if __name__ == "__main__":
    run(main)
