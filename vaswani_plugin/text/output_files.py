"""Output files: each appears under its name when it is complete, or not at all."""

import gzip
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from vaswani_plugin.text.messages import InputError

BUFFER_BYTES = 1 << 18


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
    with io.BufferedWriter(raw, BUFFER_BYTES) as stream:
        yield stream


@contextmanager
def _replacing(path: str) -> Iterator[IO[bytes]]:
    target = Path(os.path.realpath(path))
    handle, temporary = _temporary_beside(target)
    try:
        with io.BufferedWriter(NamedFile(handle, "wb", path), BUFFER_BYTES) as stream:
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
