"""Reading and writing corpora.

A corpus is UTF-8 text, plain or `.gz`, one sentence a line. Lines end at "\\n" and nowhere else:
`str.splitlines` and text-mode files would also end them at U+0085, U+2028 or a lone "\\r" and so
shift one side of a parallel corpus against the other.
"""

import gzip
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import IO, BinaryIO


class InputError(Exception):
    """Something the user can mend; the message is one line that names the place and the remedy."""


@contextmanager
def open_binary(path: str | Path) -> Iterator[IO[bytes]]:
    """Opens a file for reading bytes; `.gz` is decompressed, `-` is standard input."""
    if str(path) == "-":
        yield sys.stdin.buffer
    elif str(path).endswith(".gz"):
        with gzip.open(path, "rb") as stream:
            yield stream
    else:
        with open(path, "rb") as stream:
            yield stream


def read_lines(path: str | Path) -> Iterator[str]:
    """Yields the lines of a corpus without their line ends ("\\n", or "\\r\\n" of Windows files).

    Raises:
        InputError: invalid UTF-8 or a broken .gz file; names the file, and the line where there
            is one.
        OSError: the file can't be opened.
    """
    number = 0
    try:
        with open_binary(path) as stream:
            for raw in stream:
                number += 1
                if raw.endswith(b"\n"):
                    raw = raw[:-2] if raw.endswith(b"\r\n") else raw[:-1]
                yield raw.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise InputError(
            f"{path}:{number}: invalid UTF-8 (byte 0x{byte:02x} at offset {error.start} of the "
            "line): convert the file with iconv, or remove the line"
        ) from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{path}: broken .gz file ({error}): fetch it again") from error


def read_pairs(source: str, target: str) -> Iterator[tuple[str, str]]:
    """Yields line pairs.

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


def _compressed(raw: BinaryIO) -> IO[bytes]:
    # Without name and time in the header equal content gives equal bytes.
    return gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)


@contextmanager
def write_atomically(path: str | Path) -> Iterator[Callable[[str], None]]:
    """Gives a function that writes one line; the file appears under its name only when complete.

    `.gz` is compressed, `-` is standard output. On any error the old file, if there is one, stays
    as it was and nothing half-written is left.
    """
    if str(path) == "-":
        yield lambda line: _write_line(sys.stdout.buffer, line)
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as raw:
            if target.suffix == ".gz":
                with _compressed(raw) as stream:
                    yield lambda line: _write_line(stream, line)
            else:
                yield lambda line: _write_line(raw, line)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _write_line(stream: IO[bytes], line: str) -> None:
    stream.write(line.encode("utf-8") + b"\n")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def in_chunks(lines: Iterator[str], size: int = 2000) -> Iterator[list[str]]:
    """Groups lines into lists of `size`, the last one shorter, for worker processes."""
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def run(main: Callable[[], None]) -> None:
    """Runs a script's `main`; what the user can mend becomes one line on stderr and exit code 1."""
    name = Path(sys.argv[0]).name
    try:
        main()
    except InputError as error:
        sys.exit(f"{name}: error: {error}")
    except BrokenPipeError:
        # The reader of a pipe left (`| head`); point stdout elsewhere so that its flush at exit
        # is silent as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        sys.exit(f"{name}: error: {place}{error.strerror or error}")
    except KeyboardInterrupt:
        sys.exit(130)
