"""Compressed files that don't expand without end: a bomb of zeros is refused."""

import io
from typing import IO

from vaswani_plugin.text.messages import InputError

# Text shrinks to a third, the most repetitive one hardly to a fiftieth; zeros to a thousandth.
MOST_EXPANSION = 200
ALWAYS_EXPANDED = 1 << 26
"""Bytes to which any compressed file may expand."""
_BUFFER_BYTES = 1 << 18


class _Expanding(io.RawIOBase):
    """What a compressed stream expands to, as long as it isn't too much of it."""

    def __init__(self, stream: IO[bytes], most: int, name: str) -> None:
        super().__init__()
        self._stream, self._left, self._name = stream, most, name

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:
        """As RawIOBase's; raises InputError where nothing may come any more."""
        data = self._stream.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise InputError(
                f"{self._name}: expands to over {MOST_EXPANSION} times its size: a bomb, or no "
                "text; fetch it again, or unpack it by other means"
            )
        buffer[: len(data)] = data
        return len(data)


def bounded(stream: IO[bytes], size: int, name: str) -> io.BufferedReader:
    """The expanded bytes of `stream`, refused where they are far too many for text.

    A gzip file of some megabytes can hold gigabytes of zeros, which would fill memory or disk.

    Args:
        stream: that decompresses as it is read.
        size: bytes of the compressed file.
        name: what an error calls it.

    Reading raises:
        InputError: it expands to more than `MOST_EXPANSION` times its size (from
            `ALWAYS_EXPANDED` on).
    """
    return io.BufferedReader(_Expanding(stream, most_expanded(size), name), _BUFFER_BYTES)


def most_expanded(size: int) -> int:
    """Bytes to which a compressed file of `size` bytes may expand."""
    return max(ALWAYS_EXPANDED, MOST_EXPANSION * size)
