"""Reading corpora.

A corpus is UTF-8 text, plain or `.gz`, one sentence a line. Lines end at "\\n" alone.
`str.splitlines` and text-mode files would also end them at U+0085, U+2028 or a lone "\\r", which
would shift one side of a parallel corpus against the other.
"""

import gzip
import json
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

from vaswani_plugin.text.expansion import bounded
from vaswani_plugin.text.messages import InputError

BLOCK_BYTES = 1 << 18
GZIP_ERRORS = (gzip.BadGzipFile, EOFError, zlib.error)
BYTE_ORDER_MARK = "\ufeff"
"""The byte order mark: some programs write it at the beginning of a file; it is no text."""
MOST_DIGITS = 18
"""The most digits of a number in a file, so that it fits into 64 bits."""


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
