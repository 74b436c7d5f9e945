"""Reads sentence pairs from two files, one a side, or from one file with a column a side."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from vaswani_plugin.text.corpus_io import read_lines, read_pairs
from vaswani_plugin.text.messages import InputError

SIDES = ("source", "target")


def read_text(path: str | Path) -> Iterator[str]:
    """Yields the lines of a file that holds some, as `read_lines` does.

    Raises:
        InputError: the file is empty, or `read_lines` raises it.
        OSError: the file can't be read.
    """
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        raise InputError(f"{path}: the file is empty")
    return chain((first,), lines)


@dataclass(frozen=True)
class PairFiles:
    """Two files that correspond line by line, or one with tab-separated columns; plain or .gz.

    Args:
        paths: one or two.
        languages: of source and target. A first line whose first two columns are these codes (or
            "source" and "target") is a heading and is skipped.

    Raises:
        InputError: there are more than two files, or none.
    """

    paths: tuple[str, ...]
    languages: tuple[str, str] = SIDES

    def __post_init__(self) -> None:
        if len(self.paths) not in (1, 2):
            raise InputError(
                f"{len(self.paths)} files: give two, or one with a column a side, instead of "
                f"{' '.join(self.paths)}"
            )

    def place(self, number: int) -> str:
        """Returns the place of a pair for messages, FILE:LINE."""
        return f"{self.paths[0]}:{number}"

    def read(self) -> Iterator[tuple[int, str, str | None]]:
        """Yields (line number from 1 on, source, target); target is None if a line has one column.

        If a line has more than two columns, the first two are used.

        Raises:
            InputError: the files differ in length, are empty or no text; names file and line.
            OSError: a file can't be read.
        """
        if len(self.paths) == 2:
            for number, (left, right) in enumerate(read_pairs(*self.paths), start=1):
                yield number, left, right
            return
        for number, line in enumerate(read_text(self.paths[0]), start=1):
            columns = line.split("\t")
            if number == 1 and self._is_heading(columns):
                continue
            yield number, columns[0], columns[1] if len(columns) > 1 else None

    def _is_heading(self, columns: list[str]) -> bool:
        words = tuple(column.strip().casefold() for column in columns[:2])
        return words in (SIDES, tuple(language.casefold() for language in self.languages))
