"""Reading and writing corpora.

A corpus is UTF-8 text, plain or `.gz`, one sentence a line. Lines end at "\\n" alone.
`str.splitlines` and text-mode files would also end them at U+0085, U+2028 or a lone "\\r", which
would shift one side of a parallel corpus against the other.
"""

import gzip
import io
import json
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

from vaswani_plugin.text.expansion import bounded
from vaswani_plugin.text.messages import (
    InputError,
    flush_stdout,
    name_stdout,
    one_line,
    silence_stdout,
)

BLOCK_BYTES = 1 << 18
GZIP_ERRORS = (gzip.BadGzipFile, EOFError, zlib.error)
BYTE_ORDER_MARK = "\ufeff"
"""The byte order mark: some programs write it at the beginning of a file; it is no text."""
MOST_DIGITS = 18
"""The most digits of a number in a file, so that it fits into 64 bits."""


class NamedFile(io.FileIO):
    """An unbuffered file for writing; its errors (a full disk) name a file that the user knows.

    Args:
        path: the file that is written, or a file descriptor.
        mode: as for `io.FileIO`.
        name: the file's name in error messages.
    """

    def __init__(self, path: str | Path | int, mode: str, name: str) -> None:
        super().__init__(path, mode)
        self._shown = name

    def write(self, data: bytes) -> int:
        """Same as `FileIO.write`."""
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._shown) from error


@contextmanager
def open_binary(path: str | Path) -> Iterator[IO[bytes]]:
    """Opens a file for reading bytes; `.gz` is decompressed (`bounded`), `-` is standard input.

    Raises:
        InputError: a broken .gz file, also where reading finds it.
        OSError: the file can't be opened.
    """
    if str(path) == "-":
        yield sys.stdin.buffer
    elif str(path).endswith(".gz"):
        with open(path, "rb") as packed, gzip.GzipFile(fileobj=packed) as stream:
            status = os.fstat(packed.fileno())
            is_file = stat.S_ISREG(status.st_mode)  # the size of a pipe is unknown
            try:
                yield bounded(stream, status.st_size, str(path)) if is_file else stream
            except GZIP_ERRORS as error:
                raise InputError(f"{path}: broken .gz file ({error}): fetch it again") from error
    else:
        with open(path, "rb") as stream:
            yield stream


def _whole_lines(stream: IO[bytes]) -> Iterator[bytes]:
    # `read1` returns the bytes that are available: the first line of a pipe is not delayed until
    # its end.
    rest: list[bytes] = []
    while block := stream.read1(BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*rest, block[:end]])
            rest = []
        if end < len(block):
            rest.append(block[end:])
    if rest:
        yield b"".join(rest)


def _split(block: bytes) -> list[str]:
    lines = block.decode("utf-8").replace("\r\n", "\n").split("\n")
    if not lines[-1]:  # the empty text after the last line end
        lines.pop()
    return lines


def decode_lines(stream: IO[bytes], name: str) -> Iterator[str]:
    """Yields a binary stream's lines without their line ends ("\\n", or Windows' "\\r\\n").

    A byte order mark at the start is removed.

    Args:
        stream: anything with `read1`.
        name: the file's name in error messages.

    Raises:
        InputError: invalid UTF-8; the message names the line.
    """
    lines = _decoded(stream, name)
    first = next(lines, None)
    if first is not None:
        yield first.removeprefix(BYTE_ORDER_MARK)
        yield from lines


def _decoded(stream: IO[bytes], name: str) -> Iterator[str]:
    number = 1
    for block in _whole_lines(stream):
        try:
            lines = _split(block)
        except UnicodeDecodeError as error:
            yield from _split(block[: block.rfind(b"\n", 0, error.start) + 1])
            raise invalid_utf8(name, number, error) from error
        number += len(lines)
        yield from lines


def invalid_utf8(name: str, first: int, error: UnicodeDecodeError) -> InputError:
    """Makes the error of a block of lines that is not UTF-8; it names the line and the byte.

    Args:
        name: of the file.
        first: the number of the block's first line.
        error: of decoding the block.
    """
    block, place = error.object, error.start
    number = first + block.count(b"\n", 0, place)
    offset = place - (block.rfind(b"\n", 0, place) + 1)
    return InputError(
        f"{name}:{number}: invalid UTF-8 (byte 0x{block[place]:02x} at offset {offset} of the "
        "line): convert the file with iconv, or remove the line"
    )


def read_lines(path: str | Path) -> Iterator[str]:
    """Yields the lines of a corpus without their line ends; `-` is standard input.

    Raises:
        InputError: invalid UTF-8 (the message names file and line), or a broken .gz file (names
            the file).
        OSError: the file can't be opened.
    """
    with open_binary(path) as stream:
        yield from decode_lines(stream, str(path))


def join_words(text: str) -> str:
    """Joins the words of a text by single spaces; a line break of any kind separates words, too."""
    return " ".join(text.split())


def read_pairs(source: str | Path, target: str | Path) -> Iterator[tuple[str, str]]:
    """Yields the pairs of lines of two files.

    Raises:
        InputError: the files differ in their number of lines, or both are empty.
    """
    count = 0
    missing = object()
    sides = [read_lines(source), read_lines(target)]
    for left, right in zip_longest(*sides, fillvalue=missing):
        if left is missing or right is missing:
            short, long = (source, target) if left is missing else (target, source)
            rest = 1 + sum(1 for _ in sides[0]) + sum(1 for _ in sides[1])
            if count == 0:
                raise InputError(f"{short}: the file is empty, {long} has {rest} lines")
            raise InputError(
                f"{source} and {target} differ in length: {short} has {count} lines, {long} has "
                f"{count + rest}: they must correspond line by line"
            )
        count += 1
        yield left, right
    if count == 0:
        raise InputError(f"{source} and {target}: both files are empty")


def check_outputs(
    flag: str, outputs: Iterable[str | Path | None], inputs: Iterable[str | Path | None]
) -> None:
    """Refuses outputs that would replace an input or one another.

    Args:
        flag: the option that names the outputs, for the message.
        outputs: files that will be written; None is none.
        inputs: files that are read; None is none.

    Raises:
        InputError: an output is refused; names the file.
    """
    taken = {os.path.realpath(path) for path in inputs if path is not None}
    for path in filter(None, outputs):
        if os.path.realpath(path) in taken:
            raise InputError(
                f"{flag}: {path} is an input or another output, and would be lost: give another"
            )
        taken.add(os.path.realpath(path))


def read_json(path: str | Path, remedy: str) -> Any:
    """Reads a JSON file.

    Args:
        path: of the file.
        remedy: what the error message tells the user to do.

    Raises:
        InputError: it is not JSON, nested too deeply, or holds a surrogate, which no text file can
            hold; names the file.
        OSError: it can't be read.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = json.loads(text)
        if "\\ud" in text.lower():
            json.dumps(content, ensure_ascii=False).encode()
        return content
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}): {remedy}") from error


@contextmanager
def write_bytes_atomically(path: str | Path) -> Iterator[IO[bytes]]:
    """Opens a file for writing bytes; it appears under its name only when complete.

    `.gz` is compressed, `-` is standard output. On an error, an old file stays as it was and no
    partial file remains. A device or a pipe is written to directly, not replaced (otherwise
    `/dev/null` would become a file). A link keeps its target.

    Raises:
        OSError: the file can't be written; the error names `path`.
    """
    if str(path) == "-":
        sys.stdout.flush()
        raw = NamedFile(os.dup(sys.stdout.fileno()), "wb", "standard output")
    elif Path(path).exists() and not Path(path).is_file():
        raw = NamedFile(str(path), "wb", str(path))
    else:
        with _replacing(str(path)) as stream:
            yield stream
        return
    with io.BufferedWriter(raw, BLOCK_BYTES) as stream:
        yield stream


@contextmanager
def _replacing(path: str) -> Iterator[IO[bytes]]:
    target = Path(os.path.realpath(path))
    handle, temporary = _temporary_beside(target)
    try:
        with io.BufferedWriter(NamedFile(handle, "wb", path), BLOCK_BYTES) as stream:
            if path.endswith(".gz"):
                # The header has no name and no time, so that equal content gives equal bytes.
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=stream, mtime=0) as packed:
                    yield packed
            else:
                yield stream
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _temporary_beside(target: Path) -> tuple[int, str]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error


@contextmanager
def write_atomically(path: str | Path) -> Iterator[Callable[[str], None]]:
    """Yields a function that writes one line; otherwise the same as `write_bytes_atomically`."""
    with write_bytes_atomically(path) as stream:
        put = stream.write
        yield lambda line: put(line.encode("utf-8") + b"\n")


def write_json(path: str | Path, content: Any, indent: int | None = 2) -> None:
    """Writes a JSON file; otherwise the same as `write_bytes_atomically`.

    Args:
        path: of the file.
        content: what `json.dumps` takes.
        indent: blanks of a level; None: all on one line.
    """
    with write_atomically(path) as write:
        write(json.dumps(content, ensure_ascii=False, indent=indent))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def run(main: Callable[[], None]) -> None:
    """Runs a script's `main`; an error that the user can fix gives one line and exit code 1."""
    name = Path(sys.argv[0]).name
    try:
        main()
        flush_stdout()
    except InputError as error:
        sys.exit(f"{name}: error: {one_line(error)}")
    except BrokenPipeError:
        # The reader of the pipe has closed it (`| head`).
        silence_stdout()
        sys.exit(141)
    except OSError as error:
        sys.exit(f"{name}: error: {one_line(name_stdout(error))}")
    except MemoryError:
        sys.exit(f"{name}: error: the memory is too small for this input: divide it")
    except KeyboardInterrupt:
        sys.exit(130)
