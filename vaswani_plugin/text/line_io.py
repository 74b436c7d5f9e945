"""Reads the lines of files or of standard input, and writes result lines as they are made.

For programs that answer each line with a line. An error names the input's file and line, and the
results before it are kept.
"""

import gzip
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from vaswani_plugin.text.corpus_io import decode_lines, open_binary
from vaswani_plugin.text.messages import InputError

if TYPE_CHECKING:
    from tqdm import tqdm


class LocatedLines:
    """The lines of several files in order; knows the file and the line number of each.

    Args:
        paths: the files, plain or .gz; `-` is standard input.
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
                for line in decode_lines(stream, name):
                    count += 1
                    yield line

    def place(self, number: int) -> str:
        """Returns ``FILE:LINE`` of a line that has been yielded.

        Args:
            number: the line's number over all files, from 1 on.
        """
        before, name = next(start for start in reversed(self._starts) if start[0] < number)
        return f"{name}:{number - before}"


@contextmanager
def open_output(path: Path | None) -> Iterator[Callable[[list[str]], None]]:
    """Yields a function that writes lines without a buffer.

    A file is written as FILE.part and renamed at the end; after an error FILE.part is kept. NAME.gz
    is compressed, at first as NAME.part.gz. Devices and pipes are written directly. A link keeps
    its target, which is the file that is written.

    Args:
        path: the file; None is standard output.

    Raises:
        OSError: the file can't be written; the message names it.
        ValueError: the caller's error, to which the place of the results so far is added.
    """
    if path is None:
        yield lambda lines: _write(sys.stdout.buffer, "standard output", lines)
        return
    is_device = path.exists() and not path.is_file()  # a folder gives an error by itself
    if path.is_symlink() and not is_device:  # a pipe's link, such as /dev/stdout, names no file
        path = Path(os.path.realpath(path))
    partial = path if is_device else _partial(path)
    has_lines = False

    def write(lines: list[str]) -> None:
        nonlocal has_lines
        has_lines = has_lines or bool(lines)
        _write(stream, str(partial), lines)

    try:
        with open(partial, "wb") as file, _compressed(file, partial) as stream:
            yield write
    except Exception as error:
        if is_device or not partial.is_file():
            raise
        if not has_lines:
            partial.unlink()
        elif isinstance(error, ValueError):
            raise ValueError(f"{error}; the lines before it are in {partial}") from error
        raise
    if not is_device:
        os.replace(partial, path)


def _partial(path: Path) -> Path:
    if path.suffix == ".gz":
        return path.with_name(f"{path.stem}.part.gz")
    return path.with_name(f"{path.name}.part")


def _compressed(file: IO[bytes], path: Path) -> AbstractContextManager[Any]:
    if path.suffix == ".gz":
        return gzip.GzipFile("", "wb", fileobj=file, mtime=0)
    return nullcontext(file)


def _write(stream: IO[bytes], name: str, lines: list[str]) -> None:
    try:
        stream.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
        stream.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error


def line_progress(inputs: list[str], output: Path | None) -> "tqdm":
    """Returns a progress bar over input lines; hidden unless a person sees it undisturbed.

    It is shown on a terminal, unless the results go to the terminal too.

    Args:
        inputs: the files, as for `LocatedLines`. If one is a pipe, which can't be read twice, or
            damaged, the bar has no total.
        output: the file of the results; None is standard output.
    """
    from tqdm import tqdm

    is_shown = sys.stderr.isatty() and not (output is None and sys.stdout.isatty())
    total = _count_lines(inputs) if is_shown else None
    return tqdm(total=total, unit=" lines", disable=not is_shown)


def _count_lines(paths: list[str]) -> int | None:
    from vaswani_plugin.text.parallel import count_lines

    if not all(path != "-" and Path(path).is_file() for path in paths):
        return None
    try:
        return sum(map(count_lines, paths))
    except InputError:  # a broken .gz file: its reader reports it, after the lines before it
        return None
