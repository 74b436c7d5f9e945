"""N-best lists to rescore: Moses' format and the output of fairseq-generate.

Nothing is skipped: a line that can't be parsed is an error, which names the line's number.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vaswani_plugin.metrics.segments import first_gap, read_lines

ROUNDED = 0.01
"""Bits: what rounding the tokens of a sentence may add up to."""
_MOSES = re.compile(r"\s*\d+ \|\|\| ")
_ID = re.compile(r"[0-9]{1,18}")
_FAIRSEQ = re.compile(r"([SHTDP])-([0-9]{1,18})\t")


@dataclass(frozen=True)
class Entry:
    """A hypothesis.

    Args:
        text: its tokens, separated by spaces.
        score: the system's own.
        output: the system's output text, detokenized if the list has it detokenized.
        features: of Moses' list, as they are written there.
        rest: the fields after the score in Moses' list.
        per_nat: factor from log P in nats to the score. fairseq-generate prints bits divided by
            the length penalty; Moses' scores are assumed to be log P. None where it is unknown.
    """

    text: str
    score: float
    output: str
    features: str = ""
    rest: tuple[str, ...] = ()
    per_nat: float | None = 1.0


@dataclass(frozen=True)
class NBest:
    """The lists of all sentences, in the order of their ids, which count from 0.

    sources and references: those of the list itself, None where it has none.
    """

    path: Path
    lists: list[list[Entry]]
    sources: list[str] | None = None
    references: list[str] | None = None


def read_nbest(path: Path) -> NBest:
    """Read the n-best lists of a file; its first line determines the format.

    Raises:
        OSError: the file can't be read.
        ValueError: a broken line, or a sentence that is missing or repeated; names the line.
    """
    lines = read_lines(path)
    return _read_moses(path, lines) if _MOSES.match(lines[0]) else _read_fairseq(path, lines)


class _Lists:
    """Collects the lists of a file; ids may come in any order, each in one block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[int, list] = {}
        self.began: dict[int, int] = {}
        self.last: int | None = None

    def add(self, identity: int, number: int, item: object) -> None:
        if identity != self.last and identity in self.found:
            raise ValueError(
                f"{self.path}, line {number}: sentence {identity} comes again (its list began at "
                f"line {self.began[identity]}): are these two lists in one file?"
            )
        self.last = identity
        self.began.setdefault(identity, number)
        self.found.setdefault(identity, []).append(item)

    def in_order(self) -> list[list]:
        count, first = max(self.found) + 1, first_gap(self.found)
        if first < count:
            raise ValueError(
                f"{self.path}: no hypotheses of sentence {first} ({count - len(self.found)} of "
                f"{count} sentences missing; ids count from 0): make the list again, with all "
                "sentences"
            )
        return [self.found[i] for i in range(count)]


def _read_moses(path: Path, lines: list[str]) -> NBest:
    lists = _Lists(path)
    for number, line in enumerate(lines, 1):
        fields = [field.strip() for field in line.split("|||")]
        if len(fields) < 4 or not _ID.fullmatch(fields[0]):
            raise ValueError(
                f"{path}, line {number}: must be ID ||| HYPOTHESIS ||| FEATURES ||| SCORE"
            )
        score = _number(path, number, fields[3])
        entry = Entry(fields[1], score, fields[1], fields[2], tuple(fields[4:]))
        lists.add(int(fields[0]), number, entry)
    return NBest(path, lists.in_order())


def _read_fairseq(path: Path, lines: list[str]) -> NBest:
    kinds = {kind: _Lists(path) for kind in "SHTDP"}
    for number, line in enumerate(lines, 1):
        match = _FAIRSEQ.match(line)
        if not match:
            continue  # alignments (A lines) and log messages
        kind, fields = match[1], line[match.end() :].split("\t")
        if kind in "ST":
            kinds[kind].add(int(match[2]), number, "\t".join(fields))
            continue
        if kind == "P":
            bits = sum(_number(path, number, field) for field in fields[0].split())
            kinds[kind].add(int(match[2]), number, bits)
            continue
        if len(fields) < 2:
            raise ValueError(f"{path}, line {number}: a broken {kind} line: no text after a tab")
        item = (_number(path, number, fields[0]), "\t".join(fields[1:]))
        kinds[kind].add(int(match[2]), number, item)
    if not kinds["H"].found:
        raise ValueError(
            f"{path}: neither Moses' n-best list (ID ||| HYPOTHESIS ||| FEATURES ||| SCORE) nor "
            "output of fairseq-generate (H lines)"
        )
    hypotheses = kinds["H"].in_order()
    return NBest(
        path,
        _entries(path, hypotheses, kinds["D"], kinds["P"]),
        _one_per_list(path, "S", kinds["S"], len(hypotheses)),
        _one_per_list(path, "T", kinds["T"], len(hypotheses)),
    )


def _entries(
    path: Path, hypotheses: list[list], detokenized: _Lists, positional: _Lists
) -> list[list[Entry]]:
    outputs = _one_per_hypothesis(path, hypotheses, "D", detokenized) or hypotheses
    bits = _one_per_hypothesis(path, hypotheses, "P", positional)
    lists = []
    for identity, found in enumerate(hypotheses):
        scales = [None] * len(found)
        if bits is not None:
            rows = zip(found, bits[identity], strict=True)
            scales = [_per_nat(path, identity, score, total) for (score, _), total in rows]
        rows = zip(found, outputs[identity], scales, strict=True)
        lists.append(
            [
                Entry(text, score, output, per_nat=scale)
                for (score, text), (_, output), scale in rows
            ]
        )
    return lists


def _one_per_hypothesis(
    path: Path, hypotheses: list[list], kind: str, lists: _Lists
) -> list[list] | None:
    """The lines of a kind, one a hypothesis; None if the file has none."""
    if not lists.found:
        return None
    given = lists.in_order()
    for identity, found in enumerate(hypotheses):
        count = len(given[identity]) if identity < len(given) else 0
        if count != len(found) or len(given) > len(hypotheses):
            raise ValueError(
                f"{path}: sentence {identity} has {len(found)} H lines and {count} {kind} lines: "
                "the file is cut off or was edited"
            )
    return given


def _per_nat(path: Path, identity: int, score: float, bits: float) -> float:
    """`Entry.per_nat`; `bits` is log2 P of a hypothesis, `score` is `bits` over its penalty.

    The output has the bits of each token in four decimals only; next to 0 nothing can be said.
    """
    if abs(score) < ROUNDED and abs(bits) < ROUNDED:
        return 1.0 / math.log(2)
    if score * bits <= 0:
        raise ValueError(
            f"{path}: sentence {identity} has the score {score:g} and token scores that sum to "
            f"{bits:g}: the file was edited"
        )
    return score / bits / math.log(2)


def _one_per_list(path: Path, kind: str, lists: _Lists, count: int) -> list[str] | None:
    if not lists.found:
        return None
    for identity, texts in lists.found.items():
        if len(texts) > 1:
            raise ValueError(
                f"{path}: sentence {identity} has {len(texts)} {kind} lines: are these two lists "
                "in one file?"
            )
    texts = [text for (text,) in lists.in_order()]
    if len(texts) != count:
        raise ValueError(
            f"{path}: {count} sentences with hypotheses, but {len(texts)} {kind} lines: the file "
            "is cut off"
        )
    return texts


def _number(path: Path, line: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{path}, line {line}: the score {text!r} is no number")
    return value


def write_nbest(
    write: Callable[[str], object],
    nbest: NBest,
    names: Sequence[str],
    features: Sequence[Sequence[Sequence[float]]],
    scores: Sequence[Sequence[float]],
) -> None:
    """Write all hypotheses in Moses' format, each sentence's best first.

    Args:
        write: function that writes a line.
        nbest: the lists.
        names: names of the features to add to the list's own.
        features: values of these features for each sentence's hypotheses.
        scores: of each sentence's hypotheses, which are sorted by it.
    """
    for identity, (entries, rows, totals) in enumerate(
        zip(nbest.lists, features, scores, strict=True)
    ):
        for place in sorted(range(len(entries)), key=lambda i: -totals[i]):
            entry = entries[place]
            added = (f"{name}= {value:.6g}" for name, value in zip(names, rows[place], strict=True))
            known = " ".join(filter(None, (entry.features, *added)))
            fields = (str(identity), entry.text, known, f"{totals[place]:.6g}", *entry.rest)
            write(" ||| ".join(fields))
