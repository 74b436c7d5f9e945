"""Runs a line function over a corpus, in worker processes, in the order of the lines."""

from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing import Pool
from multiprocessing.pool import AsyncResult

from vaswani_text.corpus_io import InputError, in_chunks, read_lines, write_atomically

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
