"""Cleans a user's sentence pairs and divides them into train, valid and test.

No sentence of the held-out text is in the training text, on either side. This also holds for
held-out text from separate files. Files are read more than once and never kept in memory.
"""

import math
import random
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress
from operator import not_, or_
from pathlib import Path
from typing import Any

from vaswani_plugin.text.cleaning import SeenPairs
from vaswani_plugin.text.columns import PairFiles
from vaswani_plugin.text.corpus_io import read_pairs
from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.output_files import write_atomically
from vaswani_plugin.text.own_report import report
from vaswani_plugin.text.screening import (
    LEAKED,
    ONE_COLUMN,
    REPEATED,
    Dropped,
    PairRules,
    PairScreen,
)
from vaswani_plugin.text.sides import Pair, seem_swapped
from vaswani_plugin.text.splitting import hold_out, sentence_key

SAMPLE = 10_000
"""Size of the sample, in pairs, from which the properties of a corpus are learned."""
LEAST_PAIRS = 20
"""Fewer pairs are too few to train and test."""


@dataclass(frozen=True)
class Inputs:
    """The files and sizes of a corpus.

    Args:
        train: the training text; a split that is None is taken from it.
        valid: validation text, or None.
        test: test text, or None.
        old: older training text to mix in, or None.
        mix_ratio: number of old pairs for each new pair, at most.
        keep_out: text with which no training pair may share a sentence.
        valid_size: validation pairs to hold out; None means `held_out_size`.
        test_size: test pairs to hold out; None means `held_out_size`.
    """

    train: PairFiles
    valid: PairFiles | None
    test: PairFiles | None
    old: PairFiles | None
    mix_ratio: float
    keep_out: PairFiles | None
    valid_size: int | None
    test_size: int | None

    def __post_init__(self) -> None:
        """Checks the ratio.

        Raises:
            InputError: it is negative, infinite or nan.
        """
        if not 0 <= self.mix_ratio < math.inf:  # also refuses nan
            raise InputError(f"--mix-ratio {self.mix_ratio:g}: must be a number of at least 0")


class _HeldOut:
    """The sentences of the held-out text, as keys, in one set for each side."""

    def __init__(self) -> None:
        self._keys: tuple[set[int], set[int]] = (set(), set())

    def add(self, keys: tuple[int, int]) -> None:
        for known, key in zip(self._keys, keys, strict=True):
            known.add(key)

    def shares(self, keys: tuple[int, int]) -> bool:
        """Whether one of the two sentences is in the held-out text."""
        return keys[0] in self._keys[0] or keys[1] in self._keys[1]


def held_out_size(pairs: int) -> int:
    """Size of a validation or test set: 1/20 of the pairs, from 50 to 2,000, at most 1/10."""
    return min(max(pairs // 20, 50), 2000, pairs // 10)


def sample_pairs(files: PairFiles, size: int = SAMPLE) -> list[Pair]:
    """Reads the files to the end and returns evenly drawn pairs; equal text gives equal pairs.

    Args:
        files: the corpus.
        size: of the sample, in pairs.

    Raises:
        InputError: `PairFiles.read` raises it, or the first line has only one column.
    """
    chosen: list[Pair] = []
    draw = random.Random(1)
    count = 0
    for number, left, right in files.read():
        if right is None:
            if not count:
                raise InputError(
                    f"{files.place(number)}: {ONE_COLUMN}: separate source and target by a tab, or "
                    "give two files"
                )
            continue
        count += 1
        if len(chosen) < size:
            chosen.append((left, right))
        elif (place := draw.randrange(count)) < size:
            chosen[place] = left, right
    return chosen


def keys_of(left: str, right: str) -> tuple[int, int]:
    """Returns the `sentence_key` of both sides."""
    return sentence_key(left), sentence_key(right)


def check_sides(files: PairFiles, sample: list[Pair]) -> None:
    """Refuses files whose languages are swapped.

    Raises:
        InputError: the languages are swapped; names the files.
    """
    source, target = files.languages
    if sample and seem_swapped(sample, source, target):
        names = " and ".join(files.paths)
        raise InputError(
            f"{names}: source and target seem swapped: line 1 should be {source}, then {target}: "
            f"give them in the other order, or say --pair {target}-{source}"
        )


class OwnCorpus:
    """Cleans a corpus and divides it; see `prepare`.

    Args:
        inputs: the files.
        rules: limits for a pair.
        output: the folder for the splits, SPLIT.LANGUAGE each.
    """

    def __init__(self, inputs: Inputs, rules: PairRules, output: Path) -> None:
        self._inputs, self._rules, self._output = inputs, rules, output
        self._languages = inputs.train.languages
        self._held_out = _HeldOut()
        self._dropped: dict[str, Dropped] = {}
        self._counts: dict[str, int] = {}

    def prepare(self) -> dict[str, Any]:
        """Writes the splits; returns the report.

        Raises:
            InputError: the text can't be used; names the file, the line if known, and the remedy.
            OSError: a file can't be read or written.
        """
        inputs = self._inputs
        sample = sample_pairs(inputs.train)
        check_sides(inputs.train, sample)
        screen = PairScreen(self._rules, sample)
        # The test set first: its sentences are excluded from the other splits.
        for name, files in (("test", inputs.test), ("valid", inputs.valid)):
            if files is not None:
                check_sides(files, sample_pairs(files))
                pairs = list(self._screened(name, files, screen))
                self._write(name, (pair for pair, _ in pairs))
                for _, keys in pairs:
                    self._held_out.add(keys)
        # After the held-out files, which may hold the same sentences: only training pairs go.
        if inputs.keep_out is not None:
            for _, left, right in inputs.keep_out.read():
                self._held_out.add(keys_of(left, right or ""))
        with tempfile.TemporaryDirectory(prefix=".parts.", dir=self._output) as folder:
            self._divide(Path(folder), screen)
        return self._report()

    def _screened(
        self, name: str, files: PairFiles, screen: PairScreen
    ) -> Iterator[tuple[Pair, tuple[int, int]]]:
        """Yields the pairs that break no rule, with their keys; counts the others."""
        dropped = self._dropped[name] = Dropped()
        seen = SeenPairs()
        for number, left, right in files.read():
            keys = None
            if right is None:
                rule: str | None = ONE_COLUMN
            elif (rule := screen.judge(left, right)) is None:
                keys = keys_of(left, right)
                if not seen.add(left, right):
                    rule = REPEATED
                elif self._held_out.shares(keys):
                    rule = LEAKED
            if dropped.note(rule, files.place(number)):
                yield (left, right), keys
        dropped.check()

    def _write(self, name: str, pairs: Iterable[Pair]) -> None:
        count = 0
        with ExitStack() as stack:
            writers = self._writers(stack, self._output / name)
            for pair in pairs:
                count += 1
                for write, sentence in zip(writers, pair, strict=True):
                    write(sentence)
        self._counts[name] = count

    def _writers(self, stack: ExitStack, prefix: Path) -> list[Callable[[str], None]]:
        paths = [f"{prefix}.{language}" for language in self._languages]
        return [stack.enter_context(write_atomically(path)) for path in paths]

    def _divide(self, folder: Path, screen: PairScreen) -> None:
        """Cleans the training text, and holds out validation and test pairs from it."""
        left, right = array("Q"), array("Q")
        with ExitStack() as stack:
            writers = self._writers(stack, folder / "clean")
            for pair, keys in self._screened("train", self._inputs.train, screen):
                left.append(keys[0])
                right.append(keys[1])
                for write, sentence in zip(writers, pair, strict=True):
                    write(sentence)
        paths = [str(folder / f"clean.{language}") for language in self._languages]
        held = [False] * len(left)
        for name, chosen in self._choose(left, right).items():
            self._write(name, compress(read_pairs(*paths), chosen))
            for keys in compress(zip(left, right, strict=True), chosen):
                self._held_out.add(keys)
            held = list(map(or_, held, chosen))
        train = compress(read_pairs(*paths), map(not_, held))
        self._write("train", self._mixed(train, held.count(False), screen))

    def _choose(self, left: array, right: array) -> dict[str, list[bool]]:
        """Chooses the pairs that are held out, by set."""
        inputs, count = self._inputs, len(left)
        if count < LEAST_PAIRS:
            raise InputError(
                f"{inputs.train.paths[0]}: {count} pairs are too few to learn from: give at least "
                f"{LEAST_PAIRS} ({self._dropped['train']})"
            )
        wanted = (
            ("test", inputs.test, inputs.test_size),
            ("valid", inputs.valid, inputs.valid_size),
        )
        sizes = {
            name: size or held_out_size(count) for name, files, size in wanted if files is None
        }
        members = hold_out(left, right, sizes) if sizes else {}
        return {name: chosen.tolist() for name, chosen in members.items()}

    def _mixed(self, train: Iterable[Pair], new: int, screen: PairScreen) -> Iterator[Pair]:
        """Yields the training pairs, then old pairs that share no sentence with held-out text."""
        yield from train
        old = self._inputs.old
        if old is None:
            return
        wanted = round(new * self._inputs.mix_ratio)
        usable = [
            (keys, number) for number, (_, keys) in enumerate(self._screened("old", old, screen))
        ]
        chosen = {number for _, number in sorted(usable)[:wanted]}
        self._counts["old"] = len(chosen)
        for number, (pair, _) in enumerate(self._screened("old", old, screen)):
            if number in chosen:
                yield pair

    def _report(self) -> dict[str, Any]:
        paths = {side: self._output / f"train.{side}" for side in self._languages}
        return report(self._counts, paths, self._dropped)
