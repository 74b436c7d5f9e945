"""Reads text: UTF-8, plain or `.gz`, a sentence a line; `-` is standard input.

Lines end at "\\n" or "\\r\\n" alone. `str.splitlines` and text-mode files would also end them at
U+0085, U+2028 or a lone "\\r", which shifts one side of a parallel corpus against the other. A
carriage return inside a line is an error for every reader of text: most programs, fairseq among
them, end the line there.
"""

import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, zip_longest
from pathlib import Path
from typing import IO, Any

from vaswani_plugin.errors import UserError

_CODINGS = {b"\x1f\x8b": "gzip: name it .gz", b"\xfd7z": "xz: unxz it", b"PK\3\4": "zip: unzip it"}
_CODINGS |= dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "UTF-16: use iconv -f UTF-16 -t UTF-8")


@contextmanager
def open_binary(path: str | Path) -> Iterator[IO[bytes]]:
    """Opens a file for reading bytes; `.gz` is decompressed, `-` is standard input."""
    if str(path) == "-":
        yield sys.stdin.buffer
    elif str(path).endswith(".gz"):
        with gzip.open(path) as stream:
            try:
                yield io.BufferedReader(stream, 1 << 18)
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise UserError(f"{path}: broken .gz file ({error}): fetch it again") from error
    else:
        with open(path, "rb") as stream:
            yield stream


def decode_lines(
    stream: Iterable[bytes], name: str, first: int = 1, returns_inside: bool = False
) -> Iterator[str]:
    """Yields lines without their ends; without a byte order mark at the start of the file.

    A `UserError` for another coding, or a carriage return inside a line unless `returns_inside` (a
    program's log has them), gives the file's `name` and the line, of which `first` is the first.
    """
    for number, raw in enumerate(stream, start=first):
        if number == 1 and (kinds := [kind for x, kind in _CODINGS.items() if raw.startswith(x)]):
            raise UserError(f"{name}:1: the file looks like {kinds[0]}")
        try:
            line = raw.decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            where = f"byte 0x{raw[error.start]:02x} at offset {error.start} of the line"
            text = f"{name}:{number}: invalid UTF-8 ({where}): use iconv, or remove the line"
            raise UserError(text) from error
        if ("\0" in line or "\x1b$" in line) and not returns_inside:
            coding = "NUL, as in UTF-16" if "\0" in line else "ESC $, as in ISO-2022-JP"
            raise UserError(f"{name}:{number}: {coding}: use iconv, or remove the line")
        if "\r" in line:
            line = line.rstrip("\r")
            if "\r" in line and not returns_inside:
                advice = r"make it a line feed (tr '\r' '\n') or a blank (tr '\r' ' ')"
                raise UserError(f"{name}:{number}: a carriage return inside the line: {advice}")
        yield line.removeprefix("\ufeff") if number == 1 else line


def shown_name(path: str | Path) -> str:
    """Returns a file's name for messages."""
    return "standard input" if str(path) == "-" else str(path)


def read_lines(path: str | Path, returns_inside: bool = False) -> Iterator[str]:
    """Yields the lines of a file; arguments and errors are those of `decode_lines`."""
    with open_binary(path) as stream:
        yield from decode_lines(stream, shown_name(path), returns_inside=returns_inside)


def read_text(path: str | Path, returns_inside: bool = False) -> Iterator[str]:
    """Yields the lines of a file as `read_lines` does; an empty file is a `UserError`."""
    lines = read_lines(path, returns_inside)
    first = next(lines, None)
    if first is None:
        raise UserError(f"{path}: the file is empty")
    return chain((first,), lines)


def refuse_pipes(paths: Iterable[str]) -> None:
    """Refuses standard input and pipes among files that are read twice."""
    for path in paths:
        if path == "-" or Path(path).is_fifo():
            raise UserError(f"{path}: a pipe can't be read twice: give a file")


def read_pairs(
    source: str | Path, target: str | Path, *, returns_inside: bool = False
) -> Iterator[tuple[str, str]]:
    """Yields the pairs of lines of two files, which must be of the same length, and not empty."""
    count = 0
    sides = [read_lines(path, returns_inside) for path in (source, target)]
    for left, right in zip_longest(*sides):
        if left is None or right is None:
            lengths = [count + (line is not None) for line in (left, right)]
            lengths = [n + sum(1 for _ in side) for n, side in zip(lengths, sides, strict=True)]
            numbers = f"{lengths[0]} and {lengths[1]} lines: they must correspond line by line"
            raise UserError(f"{source} and {target} differ in length: {numbers}")
        count += 1
        yield left, right
    if count == 0:
        raise UserError(f"{source} and {target}: both files are empty")


def join_words(text: str) -> str:
    """Joins the words of a text by single spaces; a line break of any kind separates words, too."""
    return " ".join(text.split())


def read_json(path: str | Path, remedy: str) -> dict[str, Any]:
    """Reads the object in a JSON file; the error of a file without one tells this remedy."""
    try:
        return dict(json.loads(Path(path).read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: no JSON object ({error}): {remedy}") from error
