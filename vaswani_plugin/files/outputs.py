"""Writes files: each appears under its name when it is complete, or not at all.

Pipes and devices, such as `/dev/null`, are written to directly, a link is replaced. `.gz` is
compressed, `-` is standard output.
"""

import gzip
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import open_binary

if TYPE_CHECKING:
    from tqdm import tqdm

DATA_FILES = ("dict*.txt", "[tv]*.bin", "[tv]*.idx", "codes", "preprocessing.json", "*.log")
"""The files of a folder of binarized data: of train, train1, valid and test."""


def check_outputs(
    flag: str, outputs: Iterable[str | Path | None], inputs: Iterable[str | Path | None]
) -> None:
    """Refuses folders, and outputs that would replace an input or one another; None is no file."""
    taken = {os.path.realpath(path) for path in inputs if path is not None and str(path) != "-"}
    for path in (path for path in outputs if path):
        if os.path.isdir(path):
            raise UserError(f"{flag}: {path} is a folder; name a file in it")
        if os.path.realpath(path) in taken - {os.devnull}:
            raise UserError(f"{flag}: {path} is an input or another output, and would be lost")
        taken.add(os.path.realpath(path))


@contextmanager
def _naming(name: str | Path) -> Iterator[None]:
    """An error of writing, such as a full disk, names the file, as an error of opening does."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(name)) from error
        raise


@contextmanager
def _packed(path: str | Path, file: IO[bytes]) -> Iterator[IO[bytes]]:
    with file:
        if str(path).endswith(".gz"):
            # The header has no name and no time, so that equal content gives equal bytes.
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                yield cast(IO[bytes], packed)
        else:
            yield file


def _is_device(path: str | Path) -> bool:
    """Whether a path is standard output, a pipe or a device, which no file replaces."""
    is_other = os.path.exists(path) and not os.path.isfile(path)
    return str(path) == "-" or str(path).startswith(("/dev/std", "/dev/fd/")) or is_other


@contextmanager
def _open_device(path: str | Path) -> Iterator[IO[bytes]]:
    if str(path) == "-":
        with _naming("standard output"):
            sys.stdout.flush()  # what was printed before
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
    else:
        with _naming(path), open(path, "wb") as stream:
            yield stream


@contextmanager
def write_bytes_atomically(path: str | Path) -> Iterator[IO[bytes]]:
    """Opens a file for writing bytes; after an error an old file stays, and no partial one."""
    if _is_device(path):
        with _open_device(path) as stream:
            yield stream
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with _naming(path), _packed(path, open(handle, "wb", 1 << 18)) as stream:
            yield stream
        os.umask(mask := os.umask(0))
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


@contextmanager
def write_atomically(path: str | Path) -> Iterator[Callable[[str], object]]:
    """Yields a function that writes one line; otherwise the same as `write_bytes_atomically`."""
    with write_bytes_atomically(path) as stream:
        put = stream.write
        yield lambda line: put(line.encode("utf-8") + b"\n")


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Writes all lines of a file; otherwise the same as `write_bytes_atomically`."""
    with write_atomically(path) as write:
        for line in lines:
            write(line)


def write_json(path: str | Path, content: Any, indent: int | None = 2) -> None:
    """Writes a JSON file, as `json.dumps` does; otherwise the same as `write_bytes_atomically`."""
    write_lines(path, [json.dumps(content, ensure_ascii=False, indent=indent)])


@contextmanager
def open_output(path: Path | None) -> Iterator[Callable[[list[str]], None]]:
    """Yields a function that writes lines at once, for results that take long to make.

    A file is written as FILE.part and renamed at the end; after an error FILE.part is kept if it
    holds lines, and a note of the exception tells so. None is standard output.
    """

    def writer(stream: IO[bytes]) -> Callable[[list[str]], None]:
        def write(lines: list[str]) -> None:
            stream.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
            stream.flush()

        return write

    if path is None or _is_device(path):
        with _open_device(path or "-") as stream:
            yield writer(stream)
        return
    partial = path.with_name(f"{path.name}.part")
    file = open(partial, "wb")
    length = 0
    try:
        with _naming(partial), _packed(path, file) as stream:
            try:
                yield writer(stream)
            finally:
                length = stream.tell()
    except BaseException as error:
        if length:
            error.add_note(f"; the lines before it are in {partial}")
        else:
            partial.unlink()
        raise
    os.replace(partial, path)


def line_progress(inputs: list[str], output: Path | None) -> "tqdm":
    """Returns a progress bar over the lines of files; with a total, unless one is a pipe.

    It is shown on a terminal, unless the results go to the terminal too (`output` is None).
    """
    from tqdm import tqdm

    is_shown = sys.stderr.isatty() and not (output is None and sys.stdout.isatty())
    total = None
    if is_shown and all(Path(path).is_file() for path in inputs):
        with ExitStack() as stack:
            total = sum(1 for path in inputs for _ in stack.enter_context(open_binary(path)))
    return tqdm(total=total, unit=" lines", disable=not is_shown)


@contextmanager
def new_data_folder(output: Path) -> Iterator[tuple[Path, Path]]:
    """Makes a folder that takes the place of `output` once it is complete, and not after an error.

    Yields the new folder, and one for intermediate files. `output` may be a folder of such data.
    """
    output = Path(os.path.realpath(output))
    inside = list(output.iterdir()) if output.is_dir() else [output] if output.exists() else []
    others = [path for path in inside if path.is_dir() or not any(map(path.match, DATA_FILES))]
    if others or (inside and not any(path.match("dict*.txt") for path in inside)):
        name = (others or inside)[0].name
        advice = "only a folder of binarized data alone is replaced: give a new one"
        raise UserError(f"--output {output}: it holds {name}; {advice}")
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as parent:
        folder, parts = Path(parent, "data-bin"), Path(parent, "parts")
        folder.mkdir()
        parts.mkdir()
        yield folder, parts
        if output.exists():
            shutil.rmtree(output)
        os.replace(folder, output)
