"""Cleans a user's text for a language model and divides it into train, valid and test.

The text keeps its order: the last lines are held out, first those for valid, then those for test.
No long line is in two of the splits (`screening.judge_lines`).
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from vaswani_plugin.text.columns import read_text
from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.output_files import write_atomically
from vaswani_plugin.text.own_corpus import LEAST_PAIRS, held_out_size
from vaswani_plugin.text.own_report import report
from vaswani_plugin.text.screening import Dropped, judge_lines


class OwnLines:
    """Cleans and divides one text; see `prepare`.

    Args:
        train: the text.
        valid: a separate validation text, or None.
        test: a separate test text, or None.
        valid_size: validation lines to hold out; None means `held_out_size`.
        test_size: test lines to hold out; None means `held_out_size`.
        output: the folder for train.txt, valid.txt and test.txt.
        keep_out: text whose long lines the training text may not hold, nor what is held out from
            it; or None.
    """

    def __init__(
        self,
        train: str,
        valid: str | None,
        test: str | None,
        valid_size: int | None,
        test_size: int | None,
        output: Path,
        keep_out: str | None = None,
    ) -> None:
        self._files = {"test": test, "valid": valid, "train": train}
        self._sizes = {"valid": valid_size, "test": test_size}
        self._output = output
        self._keep_out = keep_out
        self._dropped: dict[str, Dropped] = {}
        self._counts: dict[str, int] = {}

    def prepare(self) -> dict[str, Any]:
        """Writes the splits; returns the report.

        Raises:
            InputError: the text can't be used; names the file, the line if known, and the remedy.
            OSError: a file can't be read or written.
        """
        train = self._files["train"]
        assert train is not None
        count = sum(1 for _ in self._kept())
        if count < LEAST_PAIRS:
            raise InputError(
                f"{train}: {count} lines are too few to learn from: give at least {LEAST_PAIRS} "
                f"({self._dropped['train']})"
            )
        sizes = {
            name: 0 if self._files[name] else size or held_out_size(count)
            for name, size in self._sizes.items()
        }
        rest = count - sum(sizes.values())
        if rest < 1:
            raise InputError(
                f"--valid-size {sizes['valid']} --test-size {sizes['test']}: nothing is left to "
                f"train on of {count} lines: ask for fewer"
            )
        lines = self._kept()
        for name, size in {"train": rest, **sizes}.items():
            if name == "train" or size:
                self._write(name, islice(lines, size))
        rest_of_lines = next(lines, None)  # read to the end: the last lines may be dropped
        assert rest_of_lines is None, rest_of_lines
        return report(self._counts, {"text": self._output / "train.txt"}, self._dropped)

    def _kept(self) -> Iterator[str]:
        """Writes the held-out texts that have separate files, then yields the training lines.

        Held-out texts are read first, so that their long lines are dropped from the training text.
        """
        broken = judge_lines()
        for name, path in self._files.items():
            if path is None:
                continue
            if name == "train" and self._keep_out is not None:
                for line in read_text(self._keep_out):
                    broken(line)
            dropped = self._dropped[name] = Dropped("lines")
            lines = (
                line
                for number, line in enumerate(read_text(path), start=1)
                if dropped.note(broken(line), f"{path}:{number}")
            )
            if name == "train":
                yield from lines
            else:
                self._write(name, lines)
            dropped.check()

    def _write(self, name: str, lines: Iterable[str]) -> None:
        count = 0
        with write_atomically(self._output / f"{name}.txt") as write:
            for count, line in enumerate(lines, start=1):  # noqa: B007
                write(line)
        self._counts[name] = count
