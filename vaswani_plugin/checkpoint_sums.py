"""Checks a checkpoint's checksums: are its bytes those that were saved? Standard library only.

PyTorch writes a zip archive with a CRC-32 of each tensor, but doesn't check the sums when it reads:
a flipped bit changes a weight. Python's own zip reader checks them.
"""

import errno
import os
import struct
import time
import zipfile
import zlib

_ARCHIVE_START = b"PK\x03\x04"
_PICKLE_START = b"\x80"  # files of PyTorch before 1.6, which hold no checksums
# Errors of the zip reader on an archive with damaged headers.
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    *(RuntimeError, ValueError, LookupError, OverflowError, MemoryError),
)


_GOOD: set[tuple] = set()
"""Files that this process found intact, by values that change when a file is written."""

_SETTLED = 2.0
"""For so many seconds after a write, another write may leave the file's times unchanged."""


def claims_more_than_it_holds(path: str | os.PathLike) -> bool:
    """Return whether the parts of an archive are larger than its file, which costs memory to read.

    `torch.save` compresses nothing. False for other files, which `damage` judges.

    Raises:
        OSError: when the file is missing or may not be read.
    """
    with open(path, "rb") as file:
        if file.read(len(_ARCHIVE_START)) != _ARCHIVE_START:
            return False
        try:
            with zipfile.ZipFile(file) as archive:
                claimed = sum(part.file_size for part in archive.infolist())
        except _UNREADABLE:
            return False
        return claimed > os.fstat(file.fileno()).st_size


def damage(path: str | os.PathLike) -> str | None:
    """Find damage in a file that `torch.save` wrote.

    A file that was found intact is not read again until it changes.

    Args:
        path: the file.

    Returns:
        The rest of a sentence that starts with the file's name. None where each checksum is right,
        and for a file of PyTorch before 1.6.

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
