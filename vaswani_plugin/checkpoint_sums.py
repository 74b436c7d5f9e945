"""Whether a checkpoint's bytes are still those that were saved. Standard library only.

PyTorch writes a zip archive with a CRC-32 of each tensor, and doesn't look at the sums when it
reads: a flipped bit becomes a weight. Python's own zip reader does.
"""

import errno
import os
import struct
import time
import zipfile
import zlib

_ARCHIVE_START = b"PK\x03\x04"
_PICKLE_START = b"\x80"  # PyTorch's files before 1.6, which hold no sums
# What the zip reader stumbles over in an archive whose headers are damaged.
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    *(RuntimeError, ValueError, LookupError, OverflowError, MemoryError),
)


_GOOD: set[tuple] = set()
"""The files that this process found good, by what changes when they are written."""

_SETTLED = 2.0
"""Seconds since a file was written, before which another write may leave its times as they are."""


def damage(path: str | os.PathLike) -> str | None:
    """What is wrong with a file that `torch.save` wrote.

    A file that was found good and hasn't been written since isn't read again.

    Args:
        path: the file.

    Returns:
        The rest of a sentence that starts with the file's name; None where each sum is right, and
        for a file of PyTorch before 1.6.

    Raises:
        OSError: when the file is missing or may not be read.
    """
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            identity = _identity(status)
            if identity in _GOOD:
                return None
            if zipfile.is_zipfile(file):
                wrong = _wrong_sum(file)
                if wrong is None and time.time() - status.st_ctime > _SETTLED:
                    _GOOD.add(identity)
                return wrong
            file.seek(0)
            start = file.read(len(_ARCHIVE_START))
    except OSError as error:
        if error.errno not in (errno.EIO, errno.EINVAL):  # a bad sector; an offset before the start
            raise
        return f"can't be fetched from the disk: {error.strerror}"
    if not start:
        return "is empty"
    if start.startswith(_PICKLE_START):
        return None
    return "is truncated" if start == _ARCHIVE_START else "is no checkpoint"


def _identity(status: os.stat_result) -> tuple[int, ...]:
    times = status.st_mtime_ns, status.st_ctime_ns
    return status.st_dev, status.st_ino, status.st_size, *times


def _wrong_sum(file) -> str | None:
    try:
        with zipfile.ZipFile(file) as archive:
            wrong = archive.testzip()
    except _UNREADABLE as error:
        return f"is not as it was saved ({error})"
    return wrong and f"is not as it was saved (the sum of {wrong} is wrong)"
