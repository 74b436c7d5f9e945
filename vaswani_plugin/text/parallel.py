"""Runs a function over the blocks of a corpus in worker processes; results keep the file's order.

A block is some hundred kilobytes of whole lines as bytes. Cutting and sending it costs the parent
process little; the workers decode it. Only a few blocks are in memory at a time, so memory does not
grow with the corpus. The borders of blocks do not depend on the number of workers, so the results
do not either.
"""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing import parent_process
from typing import Any, TypeVar

from vaswani_plugin.text.corpus_io import BYTE_ORDER_MARK, invalid_utf8, open_binary
from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.output_files import write_atomically

Result = TypeVar("Result")
BLOCK_BYTES = 1 << 19


@dataclass(frozen=True)
class Block:
    """Whole lines of a file.

    Attributes:
        path: the file, for messages.
        first: number of the first line, from 1 on.
        data: the lines with their line ends; only the file's last line may lack one.
    """

    path: str
    first: int
    data: bytes

    def text(self) -> str:
        """Decodes the lines, without a byte order mark; each ends in "\\n".

        Raises:
            InputError: invalid UTF-8; names the line.
        """
        try:
            text = self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise invalid_utf8(self.path, self.first, error) from error
        if self.first == 1:
            text = text.removeprefix(BYTE_ORDER_MARK)
        if "\r\n" in text:
            text = text.replace("\r\n", "\n")
        return text if text.endswith("\n") else text + "\n"

    def lines(self) -> list[str]:
        """Decodes the lines, without their line ends; raises the errors of `text`."""
        return self.text()[:-1].split("\n")


def read_blocks(path: str, size: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yields a corpus (plain, `.gz`, or `-` for standard input) as blocks of about `size` bytes.

    Raises:
        InputError: a broken .gz file.
        OSError: the file can't be opened.
    """
    first = 1
    with open_binary(path) as stream:
        while data := stream.read(size):
            data += stream.readline()
            yield Block(str(path), first, data)
            first += data.count(b"\n")


def count_lines(path: str) -> int:
    """Counts the lines of a corpus; raises the errors of `read_blocks`."""
    return sum(
        block.data.count(b"\n") + (not block.data.endswith(b"\n")) for block in read_blocks(path)
    )


_function: Callable[[Block], Any]


def _start_worker(factory: Callable[[], Callable[[Block], Any]]) -> None:
    global _function
    # The parent handles Ctrl-C, and a worker ends when its parent ends for any reason.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _function = factory()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _call(block: Block) -> Any:
    return _function(block)


def map_blocks(
    factory: Callable[[], Callable[[Block], Result]],
    path: str,
    workers: int,
    size: int = BLOCK_BYTES,
) -> Iterator[Result]:
    """Yields a function's results for the blocks of a file, in the order of the file.

    Args:
        factory: makes the function, once in each worker; must be picklable. This process calls it
            first, so that its errors are raised here.
        path: the file, plain, `.gz`, or `-` for standard input.
        workers: number of processes. With 1, or if the file is a single block, this process does
            the work.
        size: of a block, in bytes.

    Raises:
        InputError: `read_blocks` or `Block.text` raises it, or a worker was killed.
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
            pending.append(pool.submit(_call, block))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise InputError(
            f"{path}: a worker process was killed, perhaps for lack of memory: use fewer --workers"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


class _LineByLine:
    """Makes a block function of a line function; a class, because workers unpickle it."""

    def __init__(self, factory: Callable[[], Callable[[str], str]]) -> None:
        self._factory = factory

    def __call__(self) -> Callable[[Block], list[str]]:
        process = self._factory()
        return lambda block: [process(line) for line in block.lines()]


def write_results(results: Iterator[list[str]], source: str, output: str) -> int:
    """Writes lists of lines to a file; returns the number of lines.

    Args:
        results: the lists.
        source: the file that they come from, for messages.
        output: the file to write.

    Raises:
        InputError: there are no lines, because `source` is empty.
    """
    count = 0
    with write_atomically(output) as write:
        for lines in results:
            write("\n".join(lines))
            count += len(lines)
        if count == 0:
            raise InputError(f"{source}: the file is empty")
    return count


def process_file(
    factory: Callable[[], Callable[[str], str]], source: str, output: str, workers: int
) -> int:
    """Runs a line function over a file; returns the number of lines.

    Args:
        factory: makes the function, once in each worker; must be picklable.
        source: the file to read.
        output: the file to write.
        workers: number of processes.

    Raises:
        InputError: the file is empty or can't be read as text.
    """
    return write_results(map_blocks(_LineByLine(factory), source, workers), source, output)
