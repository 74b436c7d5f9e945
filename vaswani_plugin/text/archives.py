"""Members of archives as streams, read in one pass and never unpacked to disk.

A member's name is only compared, never used as a path: an archive can't write anywhere.
"""

import difflib
import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from vaswani_plugin.text.corpus_io import GZIP_ERRORS
from vaswani_plugin.text.expansion import bounded, most_expanded
from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.progress import progress

_TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz")
# zipfile raises NotImplementedError for a zip version that it does not know.
_BROKEN = (*GZIP_ERRORS, tarfile.TarError, zipfile.BadZipFile, zlib.error, NotImplementedError)


class _Watched(io.FileIO):
    """A file that reports to `advance` how many bytes each read returned."""

    def __init__(self, path: str | Path, advance: Callable[[int], None]) -> None:
        super().__init__(path, "rb")
        self._advance = advance

    def readinto(self, buffer: memoryview) -> int:
        """Same as `FileIO.readinto`."""
        count = super().readinto(buffer)
        self._advance(count)
        return count


def has_members(archive: str | Path) -> bool:
    """Whether a file's name is that of an archive of several files (.tar, .tar.gz, .tgz, .zip)."""
    return str(archive).lower().endswith((*_TAR_SUFFIXES, ".zip"))


def _plain_name(name: str) -> str:
    return name.removeprefix("./")


def _missing(archive: str | Path, wanted: set[str], names: list[str]) -> InputError:
    member = min(wanted)
    close = difflib.get_close_matches(member, names, n=3, cutoff=0.4)
    # The user most likely means a member with the right name in another folder.
    same = [name for name in names if Path(name).name == Path(member).name]
    shown = ", ".join(dict.fromkeys([*same[:3], *close])) or ", ".join(names[:5]) or "none"
    return InputError(
        f"{archive}: no member {member} among its {len(names)}, nearest: {shown}: correct "
        "--member, or fetch the archive again if it was cut short"
    )


def _tar_members(
    archive: str | Path, raw: IO[bytes], size: int, wanted: set[str]
) -> Iterator[tuple[str, IO[bytes]]]:
    # We open the .gz ourselves: tarfile takes a truncated .gz for the end of the archive.
    plain = str(archive).lower().endswith(".tar")
    names: list[str] = []
    wanted = set(wanted)
    stream = raw if plain else bounded(gzip.GzipFile(fileobj=raw), size, str(archive))
    with tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 18) as tar:
        for entry in tar:
            name = _plain_name(entry.name)
            if entry.size > most_expanded(size):  # tarfile would read on to that size
                raise InputError(f"{archive}: {name} claims {entry.size} bytes: fetch it again")
            names.append(name)
            if name not in wanted:
                continue
            if not entry.isfile():
                raise InputError(f"{archive}: {name} is no regular file: name the file itself")
            wanted.discard(name)
            yield name, tar.extractfile(entry)
            if not wanted:
                return
    raise _missing(archive, wanted, names)


def _zip_members(
    archive: str | Path, raw: IO[bytes], wanted: set[str]
) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(raw) as opened:
        entries = {_plain_name(entry.filename): entry for entry in opened.infolist()}
        if absent := wanted - entries.keys():
            raise _missing(archive, absent, list(entries))
        for name in sorted(wanted, key=lambda name: entries[name].header_offset):
            try:
                stream = opened.open(entries[name])
            except (RuntimeError, NotImplementedError) as error:  # encrypted, or an unknown method
                raise InputError(f"{archive}: {name}: {error}: unpack it by other means") from error
            with stream:
                yield name, stream


def _decompressed(archive: str | Path, size: int, name: str, stream: IO[bytes]) -> IO[bytes]:
    # A member of a .zip, a sparse member of a .tar and a .gz can all expand without limit.
    unpacked = gzip.GzipFile(fileobj=stream) if name.lower().endswith(".gz") else stream
    return (
        unpacked
        if unpacked is stream and name == str(archive)
        else bounded(unpacked, size, f"{archive}({name})")
    )


@contextmanager
def open_members(
    archive: str | Path, wanted: set[str]
) -> Iterator[Iterator[tuple[str, IO[bytes]]]]:
    """Opens the wanted members of an archive as streams, in the archive's order.

    Args:
        archive: .tar, .tar.gz, .tgz or .zip. Any other file counts as an archive with one member,
            the file itself under its own name. A member whose name ends in .gz is decompressed.
        wanted: names of the members.

    Yields:
        An iterator over (name, stream). A stream is valid until the next member is requested.

    Raises:
        InputError: no such member, or the archive is broken, cut short or a bomb.
        OSError: the archive can't be read.
    """
    try:
        size = Path(archive).stat().st_size
        with (
            progress(f"unpacking {archive}", size) as advance,
            io.BufferedReader(_Watched(archive, advance), 1 << 18) as raw,
        ):
            if str(archive).lower().endswith(".zip"):
                members = _zip_members(archive, raw, wanted)
            elif has_members(archive):
                members = _tar_members(archive, raw, size, wanted)
            else:
                members = iter([(str(archive), raw)])
            yield ((name, _decompressed(archive, size, name, stream)) for name, stream in members)
    except _BROKEN as error:
        raise InputError(
            f"{archive}: broken or cut short ({error}): remove it and fetch it again"
        ) from error
