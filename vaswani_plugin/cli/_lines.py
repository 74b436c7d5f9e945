"""Input, output and progress of the commands that answer every line with a line."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from vaswani_plugin.cli._flags import count
from vaswani_plugin.text.corpus_io import decode_lines, open_binary

if TYPE_CHECKING:
    from tqdm import tqdm

BYTE_ORDER_MARK = "\ufeff"


class RawLines:
    """The lines of files, one file after another; knows where each came from.

    A byte order mark at the start of a file is no text.

    Args:
        paths: of the files; `-` is standard input.
    """

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        self._starts: list[tuple[int, str]] = []
        """For each file so far: the number of lines before it, and its name."""

    def __iter__(self) -> Iterator[str]:
        """Yields the lines.

        Raises:
            InputError: invalid UTF-8 or a broken .gz file.
            OSError: a file can't be read.
        """
        count = 0
        for path in self.paths:
            name = "standard input" if path == "-" else path
            self._starts.append((count, name))
            with open_binary(path) as stream:
                for number, line in enumerate(decode_lines(stream, name)):
                    count += 1
                    yield line if number else line.removeprefix(BYTE_ORDER_MARK)

    def place(self, number: int) -> str:
        """``FILE:LINE`` of a line that has been yielded, numbered from 1 over all files."""
        before, name = next(start for start in reversed(self._starts) if start[0] < number)
        return f"{name}:{number - before}"


def read_raw(paths: list[str]) -> Iterator[tuple[str, str]]:
    """Yields each line of files after its place, ``FILE:LINE``; see `RawLines`."""
    lines = RawLines(paths)
    for number, line in enumerate(lines, start=1):
        yield lines.place(number), line


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add --output."""
    parser.add_argument("--output", type=Path, metavar="FILE", help="(default: standard output)")


def add_buffer(parser: argparse.ArgumentParser, most: int, doing: str) -> None:
    """Add --buffer.

    Args:
        parser: of the command.
        most: lines to read at once if the input is not typed. More lines make better batches;
            fewer show results sooner.
        doing: what the command does to the lines, such as "translating".
    """
    parser.add_argument(
        "--buffer",
        type=count,
        metavar="N",
        help=f"lines to read before {doing} them (default: {most}; 1 on a terminal)",
    )
    parser.set_defaults(most_buffered=most)


def buffer_size(args: argparse.Namespace, inputs: list[str]) -> int:
    """How many lines to read before any is answered: --buffer, or its default."""
    is_typed = inputs == ["-"] and sys.stdin.isatty()
    return args.buffer or (1 if is_typed else args.most_buffered)


@contextlib.contextmanager
def opened(output: Path | None) -> Iterator[Callable[[list[str]], None]]:
    """Yield a function that writes lines at once, to standard output or to a file.

    The lines go to FILE.part, which is renamed to FILE at the end and stays after an error. Devices
    and pipes are written directly.

    Raises:
        OSError: the file can't be written; names it.
        ValueError: an error of the caller; the message then also says where the lines so far are.
    """
    if output is None:
        yield lambda lines: _write(sys.stdout.buffer, "standard output", lines)
        return
    is_device = output.exists() and not output.is_file()  # a folder gives an error by itself
    partial = output if is_device else output.with_name(f"{output.name}.part")
    try:
        with open(partial, "wb") as stream:
            yield lambda lines: _write(stream, str(partial), lines)
    except Exception as error:
        if is_device or not partial.is_file():
            raise
        if partial.stat().st_size == 0:
            partial.unlink()
        elif isinstance(error, ValueError):
            raise ValueError(f"{error}; the lines before it are in {partial}") from error
        raise
    if not is_device:
        os.replace(partial, output)


def _write(stream: IO[bytes], name: str, lines: list[str]) -> None:
    try:
        stream.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
        stream.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error


def progress(inputs: list[str], output: Path | None) -> "tqdm":
    """A bar over the lines, shown on a terminal unless the output goes to the terminal too."""
    from tqdm import tqdm

    watched = sys.stderr.isatty() and not (output is None and sys.stdout.isatty())
    total = sum(map(_count_lines, inputs)) if watched and "-" not in inputs else None
    return tqdm(total=total, unit=" lines", disable=not watched)


def _count_lines(path: str) -> int:
    with open_binary(path) as stream:
        return sum(1 for _ in stream)
