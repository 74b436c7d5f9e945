"""Writes files: each appears under its name when it is complete, or not at all.

A device or a pipe is written to directly, not replaced (otherwise `/dev/null` would become a file).
A link keeps its target. `.gz` is compressed, `-` is standard output.
"""

import gzip
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.lines import GZIP_ERRORS, open_binary

if TYPE_CHECKING:
    from tqdm import tqdm

DATA_FILES = ("dict*.txt", "[tv]*.bin", "[tv]*.idx", "codes", "preprocessing.json", "*.log")
"""The files of a folder of binarized data: of train, train1, valid and test."""


def check_outputs(
    flag: str, outputs: Iterable[str | Path | None], inputs: Iterable[str | Path | None]
) -> None:
    """Refuses folders, and outputs that would replace an input or one another; None is no file.

    Raises:
        UserError: an output is refused; names the file.
    """
    taken = {os.path.realpath(path) for path in inputs if path is not None}
    for path in filter(None, outputs):
        if os.path.isdir(path):
            raise UserError(f"{flag}: {path} is a folder; name a file in it")
        if os.path.realpath(path) in taken:
            raise UserError(
                f"{flag}: {path} is an input or another output, and would be lost: give another"
            )
        taken.add(os.path.realpath(path))


class NamedFile(io.FileIO):
    """An unbuffered file for writing; its errors (a full disk) name a file that the user knows."""

    def __init__(self, path: str | Path | int, mode: str, name: str) -> None:
        super().__init__(path, mode)
        self._shown = name

    def write(self, data: Any) -> int:
        """Same as `FileIO.write`."""
        try:
            return super().write(data) or 0
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._shown) from error


@contextmanager
def write_bytes_atomically(path: str | Path) -> Iterator[IO[bytes]]:
    """Opens a file for writing bytes. On an error an old file stays, and no partial file remains.

    Raises:
        OSError: the file can't be written; the error names `path`.
    """
    if (device := _device(path)) is not None:
        with io.BufferedWriter(device) as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error
    try:
        with _packed(NamedFile(handle, "wb", str(path)), str(path)) as stream:
            yield stream
        os.umask(mask := os.umask(0))
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _device(path: str | Path) -> NamedFile | None:
    """Opens standard output, a device or a pipe; None for another file."""
    if str(path) == "-":
        sys.stdout.flush()
        return NamedFile(os.dup(sys.stdout.fileno()), "wb", "standard output")
    is_device = Path(path).exists() and not Path(path).is_file()
    return NamedFile(str(path), "wb", str(path)) if is_device else None


@contextmanager
def _packed(file: NamedFile, name: str) -> Iterator[IO[bytes]]:
    with io.BufferedWriter(file, 1 << 18) as stream:
        if name.endswith(".gz"):
            # The header has no name and no time, so that equal content gives equal bytes.
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=stream, mtime=0) as packed:
                yield packed
        else:
            yield stream


@contextmanager
def write_atomically(path: str | Path) -> Iterator[Callable[[str], None]]:
    """Yields a function that writes one line; otherwise the same as `write_bytes_atomically`."""
    with write_bytes_atomically(path) as stream:
        put = stream.write
        yield lambda line: put(line.encode("utf-8") + b"\n")


def write_json(path: str | Path, content: Any, indent: int | None = 2) -> None:
    """Writes a JSON file, as `json.dumps` does; otherwise the same as `write_bytes_atomically`."""
    with write_atomically(path) as write:
        write(json.dumps(content, ensure_ascii=False, indent=indent))


@contextmanager
def open_output(path: Path | None) -> Iterator[Callable[[list[str]], None]]:
    """Yields a function that writes lines at once, for results that take long to make.

    A file is written as FILE.part (NAME.gz as NAME.part.gz) and renamed at the end; after an error
    FILE.part is kept if it holds lines.

    Args:
        path: the file; None is standard output.

    Raises:
        OSError: the file can't be written; the message names it.
        ValueError: the caller's error, to which the place of the results so far is added.
    """
    if path is None:
        yield lambda lines: _write_now(sys.stdout.buffer, lines, "standard output")
        return
    file, partial = _device(path), None
    if file is None:
        path = Path(os.path.realpath(path))
        name = f"{path.stem}.part.gz" if path.suffix == ".gz" else f"{path.name}.part"
        partial = path.with_name(name)
        file = NamedFile(str(partial), "wb", str(partial))
    has_lines = False
    try:
        with _packed(file, str(partial)) as stream:

            def write(lines: list[str]) -> None:
                nonlocal has_lines
                has_lines = has_lines or bool(lines)
                _write_now(stream, lines, str(partial or path))

            yield write
    except Exception as error:
        if partial is not None and not has_lines:
            partial.unlink()
        elif partial is not None and isinstance(error, ValueError):
            raise ValueError(f"{error}; the lines before it are in {partial}") from error
        raise
    if partial is not None:
        os.replace(partial, path)


def _write_now(stream: IO[bytes], lines: list[str], name: str) -> None:
    try:
        stream.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
        stream.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error


def line_progress(inputs: list[str], output: Path | None) -> "tqdm":
    """Returns a progress bar over the lines of files.

    It is shown on a terminal, unless the results go to the terminal too (`output` is None). If a
    file is a pipe, which can't be read twice, or damaged, the bar has no total.
    """
    from tqdm import tqdm

    is_shown = sys.stderr.isatty() and not (output is None and sys.stdout.isatty())
    total = None
    if is_shown and all(path != "-" and Path(path).is_file() for path in inputs):
        try:
            total = 0
            for path in inputs:
                with open_binary(path) as stream:
                    total += sum(1 for _ in stream)
        except (UserError, *GZIP_ERRORS):  # its reader reports it, after the lines before it
            total = None
    return tqdm(total=total, unit=" lines", disable=not is_shown)


@contextmanager
def new_data_folder(output: Path) -> Iterator[tuple[Path, Path]]:
    """Makes a folder that takes the place of `output` once it is complete, and not after an error.

    Yields:
        The new folder, and one for intermediate files; both are empty.

    Raises:
        UserError: `output` is a file, or a folder that holds something else than such data.
        OSError: a folder can't be made or replaced.
    """
    output = Path(os.path.realpath(output))
    inside = list(output.iterdir()) if output.is_dir() else [output] if output.exists() else []
    others = [path for path in inside if path.is_dir() or not any(map(path.match, DATA_FILES))]
    if others or (inside and not any(path.match("dict*.txt") for path in inside)):
        raise UserError(
            f"--output {output}: it holds {(others or inside)[0].name}; only a folder of a "
            "dictionary and nothing but binarized data is replaced: give a new folder"
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as parent:
        folder, parts = Path(parent, "data-bin"), Path(parent, "parts")
        folder.mkdir()
        parts.mkdir()
        yield folder, parts
        if output.exists():
            shutil.rmtree(output)
        os.replace(folder, output)
