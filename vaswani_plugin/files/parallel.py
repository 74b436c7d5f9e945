"""Runs a function over the blocks of a corpus in worker processes; results keep the file's order.

A block is some hundred kilobytes of whole lines as bytes; the workers decode it. Only a few blocks
are in memory at a time, so memory does not grow with the corpus. The borders of blocks do not
depend on the number of workers, so the results do not either.
"""

import io
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from multiprocessing import parent_process
from typing import Any, TypeVar

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import decode_lines, open_binary, shown_name
from vaswani_plugin.files.outputs import check_outputs, write_atomically

Result = TypeVar("Result")
BLOCK, COUNTED_BLOCK = 1 << 19, 1 << 21  # sizes in bytes


@dataclass(frozen=True)
class Block:
    """Whole lines of a file: its name, the number of the first line, and the bytes."""

    path: str
    first: int
    data: bytes

    def lines(self) -> list[str]:
        """Decodes the lines; raises the errors of `decode_lines`."""
        return list(decode_lines(io.BytesIO(self.data), self.path, self.first))


def read_blocks(path: str, size: int = BLOCK) -> Iterator[Block]:
    """Yields a file (plain, `.gz`, or `-` for standard input) as blocks of about `size` bytes."""
    first = 1
    with open_binary(path) as stream:
        while data := stream.read(size):
            data += stream.readline()
            yield Block(shown_name(path), first, data)
            first += data.count(b"\n")


_function: Callable[[Block], Any]


def _start_worker(factory: Callable[[], Callable[[Block], Any]]) -> None:
    global _function
    # The parent handles Ctrl-C, and a worker ends when its parent ends for any reason.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _function = factory()


def _end_with_parent() -> None:
    parent: Any = parent_process()
    parent.join()
    os._exit(1)


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Ctrl-C in the block waits for its end; processes that are forked in it get none."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _call(block: Block) -> Any:
    return _function(block)


def map_blocks(
    factory: Callable[[], Callable[[Block], Result]], path: str, workers: int, size: int = BLOCK
) -> Iterator[Result]:
    """Yields a function's results for the blocks of a file, in the order of the file.

    `factory` makes the function, once in each worker, and must be picklable; this process calls it
    first, so that its errors are raised here. The file is plain, `.gz`, or `-` for standard input.
    With one worker, or of a single block, this process does the work.
    """
    blocks = read_blocks(path, size)
    head = list(islice(blocks, 2))
    function = factory()
    if workers == 1 or len(head) < 2:
        yield from map(function, chain(head, blocks))
        return
    pool = ProcessPoolExecutor(workers, initializer=_start_worker, initargs=(factory,))
    pending: deque[Future[Result]] = deque()
    try:
        for block in chain(head, blocks):
            with _interrupted_later():  # a worker that starts would print a traceback
                pending.append(pool.submit(_call, block))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        reason = "a worker process was killed, perhaps for lack of memory: use fewer --workers"
        raise UserError(f"{path}: {reason}") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _counter(separator: str | None) -> Callable[[Block], Counter[str]]:
    def count(block: Block) -> Counter[str]:
        counts = Counter(chain.from_iterable(line.split(separator) for line in block.lines()))
        del counts[""]
        return counts

    return count


def word_counts(paths: Iterable[str], workers: int, separator: str | None = None) -> Counter[str]:
    """Counts the words of files, in the order of their first occurrences; refuses a file without.

    `separator` stands between words; None: white space of any kind.
    """
    counts: Counter[str] = Counter()
    for path in paths:
        before = counts.total()
        for of_block in map_blocks(partial(_counter, separator), path, workers, COUNTED_BLOCK):
            counts.update(of_block)
        if counts.total() == before:
            raise UserError(f"{path}: the file holds no words")
    return counts


def _line_by_line(factory: Callable[[], Callable[[str], str]]) -> Callable[[Block], list[str]]:
    process = factory()
    return lambda block: [process(line) for line in block.lines()]


def process_file(
    factory: Callable[[], Callable[[str], str]],
    source: str,
    output: str,
    workers: int,
    *others: str | None,
) -> int:
    """Runs a line function over a file, into another; returns the number of lines.

    `others` are files that the function reads, which the output may not replace, either.
    """
    check_outputs("--output", [output], [source, *others])
    count = 0
    with write_atomically(output) as write:
        for lines in map_blocks(partial(_line_by_line, factory), source, workers):
            write("\n".join(lines))
            count += len(lines)
        if count == 0:
            raise UserError(f"{source}: the file is empty")
    return count
