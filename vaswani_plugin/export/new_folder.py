"""Writes folders atomically: a folder is complete or does not exist."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


def check_new_folder(output: Path) -> None:
    """Refuse a folder that is not empty.

    Raises:
        ValueError: `output` exists and is no empty folder, or it is the current one.
    """
    if output.exists() and output.samefile("."):
        raise ValueError(f"{output} is the current folder; give the name of a new one as --output")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(f"{output} exists and is not an empty folder; give another --output")


@contextlib.contextmanager
def new_folder(output: Path) -> Iterator[Path]:
    """Context with a temporary folder; it is renamed at the end, or removed after an error.

    Args:
        output: the final name; the folder may exist if it is empty.

    Raises:
        ValueError: `output` exists and is no empty folder, or it is the current one.
        OSError: it can't be written.
    """
    check_new_folder(output)
    output = output.resolve()  # of a symbolic link, its target
    partial = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        partial.mkdir(parents=True)
        yield partial
        with contextlib.suppress(FileNotFoundError):
            output.rmdir()  # os.replace overwrites an empty folder on POSIX only
        os.replace(partial, output)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
