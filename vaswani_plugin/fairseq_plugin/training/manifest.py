"""Checks that the data of a training stay the same: size, time and checksum of each file.

Otherwise a replaced file would be read without a message, in other batches or with another
dictionary's numbers. Checksums are computed once, and recomputed if a file's time has changed.
"""

import hashlib
import logging
import os
from pathlib import Path
from typing import Any

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.training.folder import read_json
from vaswani_plugin.text.output_files import write_json

logger = logging.getLogger(__name__)

MANIFEST = ".data.json"
Entry = dict[str, Any]


class DataChanged(UserError):
    """A data file has changed since the training began; the message names it."""


def data_files(data: str, subsets: list[str]) -> dict[str, Path]:
    """The local files that a training reads, by folder number and name.

    Args:
        data: fairseq's data argument, folders joined by colons.
        subsets: names of the training and validation sets.
    """
    starts = (*subsets, "dict.")
    files = {}
    for number, folder in enumerate(data.split(os.pathsep)):
        if os.path.isdir(folder):
            for path in sorted(Path(folder).iterdir()):
                if path.name.startswith(starts) and path.is_file():
                    files[f"{number}/{path.name}"] = path
    return files


def describe(path: Path) -> Entry:
    """Size, time and sha256 of a file."""
    status = path.stat()
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": digest}


class DataManifest:
    """A record of a training's data, kept in the save folder.

    Args:
        files: see `data_files`.
        folder: --save-dir.
    """

    def __init__(self, files: dict[str, Path], folder: Path) -> None:
        self.files = files
        self.path = folder / MANIFEST
        self.entries: dict[str, Entry] = {}

    def begin(self) -> None:
        """Record the files as they are now."""
        self._keep({name: describe(path) for name, path in self.files.items()})

    def resume(self) -> None:
        """Compare the files with the record; make the record if there is none.

        Raises:
            DataChanged: see `check`.
        """
        known = read_json(self.path)
        if not isinstance(known, dict):
            logger.info("recording the sums of the data in %s", self.path)
            self.begin()
            return
        self.entries = known
        self.check()
        new = {n: describe(path) for n, path in self.files.items() if n not in self.entries}
        if new:
            self._keep(self.entries | new)

    def check(self) -> None:
        """Compare sizes and times; compare checksums if a time differs.

        Raises:
            DataChanged: when a file is missing or its content has changed.
        """
        moved = {}
        for name, known in self.entries.items():
            path = self.files.get(name)
            if path is None or not path.is_file():
                raise self._changed(path or name.partition("/")[2], "is missing")
            status = path.stat()
            if status.st_size != known["bytes"]:
                raise self._changed(path, f"has {status.st_size} bytes instead of {known['bytes']}")
            if status.st_mtime_ns != known["mtime_ns"]:
                moved[name] = now = describe(path)
                if now["sha256"] != known["sha256"]:
                    raise self._changed(path, "was replaced by another of the same size")
        if moved:
            self._keep(self.entries | moved)

    def _keep(self, entries: dict[str, Entry]) -> None:
        self.entries = entries
        write_json(self.path, entries)

    def _changed(self, path: Path | str, how: str) -> DataChanged:
        return DataChanged(
            f"data file {path} {how} since this training began: put it back, or train from the"
            f" start into another --save-dir (--reset-dataloader takes the data as they are now;"
            f" sums: {self.path})"
        )
