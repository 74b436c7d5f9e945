"""Reads compressed files up to a limit: a decompression bomb is refused."""

import io
from typing import IO

from vaswani_plugin.text.messages import InputError

# gzip compresses text to a third, very repetitive text to a fiftieth, zeros to a thousandth.
MOST_EXPANSION = 200
ALWAYS_EXPANDED = 1 << 26
"""Bytes to which every compressed file may expand, however small it is."""
_BUFFER_BYTES = 1 << 18


class _Expanding(io.RawIOBase):
    """The expanded bytes of a compressed stream, up to a limit."""

    def __init__(self, stream: IO[bytes], most: int, name: str) -> None:
        super().__init__()
        self._stream, self._left, self._name = stream, most, name

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: memoryview) -> int:
        """Same as `RawIOBase.readinto`; raises InputError beyond the limit."""
        data = self._stream.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise InputError(
                f"{self._name}: expands to over {MOST_EXPANSION} times its size: a "
                "decompression bomb, or not text; fetch it again, or unpack it by other means"
            )
        buffer[: len(data)] = data
        return len(data)


def bounded(stream: IO[bytes], size: int, name: str) -> io.BufferedReader:
    """Returns the expanded bytes of `stream`; reading fails if they are far too many for text.

    A gzip file of some megabytes can hold gigabytes of zeros, which would fill memory or disk.

    Args:
        stream: decompresses while it is read.
        size: bytes of the compressed file.
        name: the file's name in error messages.

    Reading raises:
        InputError: the stream expands to more than `most_expanded(size)` bytes.
    """
    return io.BufferedReader(_Expanding(stream, most_expanded(size), name), _BUFFER_BYTES)


def most_expanded(size: int) -> int:
    """Bytes to which a compressed file of `size` bytes may expand."""
    return max(ALWAYS_EXPANDED, MOST_EXPANSION * size)
