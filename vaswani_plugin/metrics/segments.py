"""Segments to score: text files, one segment a line, and the output of fairseq-generate."""

from collections.abc import Container
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from vaswani_plugin.text.columns import read_text
from vaswani_plugin.text.corpus_io import MOST_DIGITS
from vaswani_plugin.text.messages import InputError


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, plain or `.gz`; see `columns.read_text`.

    Raises:
        OSError: the file can't be read.
        InputError: it is empty or a broken .gz file, or a line (named by its number) is not UTF-8.
    """
    return list(read_text(path))


@dataclass
class GenerateOutput:
    """The output of fairseq-generate in the order of the corpus: one segment a sentence.

    hypotheses are its H lines (tokens), detokenized its D lines, references its T lines (empty
    where the data has no target side).
    """

    hypotheses: list[str]
    detokenized: list[str]
    references: list[str]


def read_generate_output(path: Path) -> GenerateOutput:
    """Read the output of fairseq-generate; only the first (best) entry of an n-best list is kept.

    Raises:
        OSError: the file can't be read.
        InputError: a file without H lines, a broken line, or a sentence number that is missing.
    """
    found: dict[str, dict[int, str]] = {"H": {}, "D": {}, "T": {}}
    for number, line in enumerate(read_lines(path), 1):
        kind, dash, rest = line[:1], line[1:2], line[2:]
        fields = rest.split("\t")
        # Other output (S, P, log lines, "Generate test with beam=4") is skipped.
        if kind not in found or dash != "-" or not fields[0].isdecimal():
            continue
        if len(fields[0]) > MOST_DIGITS:
            raise InputError(f"{path}, line {number}: no sentence has a number of so many digits")
        text = fields[1:] if kind == "T" else fields[2:]
        if not text:
            raise InputError(f"{path}, line {number}: a broken {kind} line: no text after a tab")
        found[kind].setdefault(int(fields[0]), "\t".join(text))
    if not found["H"]:
        raise InputError(
            f"{path}: no H lines; give the output of fairseq-generate (without --quiet)"
        )
    for kind in ("H", "D") + (("T",) if found["T"] else ()):
        _check_complete(path, kind, found[kind], max(found["H"]))
    in_order = ([texts[i] for i in sorted(texts)] for texts in found.values())
    return GenerateOutput(*in_order)


def _check_complete(path: Path, kind: str, texts: dict[int, str], last: int) -> None:
    """Check that every sentence from 0 to the last is there: a gap means dropped sentences."""
    first = first_gap(texts)
    if first <= last:
        missing = sum(number > last for number in texts) + last + 1 - len(texts)
        raise InputError(
            f"{path}: no {kind} line of sentence {first} ({missing} of {last + 1} "
            "missing): the file is cut off, or fairseq-generate dropped sentences"
        )


def first_gap(numbers: Container[int]) -> int:
    """The lowest number from 0 on that is missing."""
    return next(number for number in count() if number not in numbers)
