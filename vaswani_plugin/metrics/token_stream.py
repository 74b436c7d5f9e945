"""The text that a language model scores: a stream of token numbers, and counts of the text.

The end of a line is a token, </s>, as in fairseq-preprocess.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_lines
from vaswani_plugin.metrics.perplexity import TextCounts, count_text
from vaswani_plugin.text.coding import UNKNOWN
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.raw_text import composed


@dataclass(frozen=True)
class Tokens:
    """A stream of tokens, (N,) numbers; `unknown` of them are <unk> where the text has another."""

    numbers: NDArray[np.int64]
    unknown: int


@dataclass(frozen=True)
class ScoredText:
    """A text to score."""

    tokens: Tokens | None  # None: there is no model
    lines: list[str]
    counts: TextCounts  # of the part of the text that the tokens represent
    coding: str  # kind of token: words, BPE, characters
    warnings: list[str]


def read_scored_text(
    path: Path,
    dictionary: Dictionary | None = None,
    pipeline: Pipeline | None = None,
    saw_lines_apart: bool = False,
) -> ScoredText:
    """Read a text by a model's dictionary and pipeline, if any; `saw_lines_apart` is a warning."""
    lines = text_to_score(path)
    if dictionary is None or pipeline is None:
        return ScoredText(None, lines, count_text(lines), "tokens", [])
    warnings = []
    encoded = [pipeline.encode(line) for line in lines]
    counts, lost = count_represented(lines, encoded, pipeline)
    if lost:
        warnings.append(
            f"{lost:,} of {len(lines):,} lines don't come back from the model's coding word "
            "by word: it can't represent them faithfully"
        )
    if saw_lines_apart:
        warnings.append(
            "the model was trained on lines apart (--sample-break-mode eos); here each line comes "
            "after others, which it doesn't know"
        )
    tokens = number_by(dictionary, encoded)
    warnings += unknown_warning("the model's coding", tokens)
    coding = getattr(pipeline.settings, "coding", "tokens")
    return ScoredText(tokens, lines, counts, coding, warnings)


def unknown_warning(who: str, tokens: Tokens) -> list[str]:
    """A list with a warning if the tokens can't represent the text; else an empty list."""
    if not tokens.unknown:
        return []
    total = len(tokens.numbers)
    return [
        f"{tokens.unknown:,} of {total:,} tokens ({tokens.unknown / total:.2%}) are unknown to "
        f"{who}, which stands for any word in their place: these perplexities are too low, and "
        "comparable only with those of the same coding"
    ]


def number_lines(
    lines: Iterable[str], indices: Mapping[str, int], unknown: int, end: int
) -> Tokens:
    """Number tokens that are separated by blanks, and add `end` for the end of each line."""
    numbers, lost = [], 0
    for line in lines:
        words = line.split()
        indexed = [indices.get(word, unknown) for word in words]
        lost += indexed.count(unknown) - words.count(UNKNOWN)
        numbers += [*indexed, end]
    return Tokens(np.array(numbers, np.int64), lost)


def number_by(dictionary: Dictionary, lines: Iterable[str]) -> Tokens:
    """Number the tokens of text by a dictionary; its special symbols are unknown in a text."""
    special = dictionary.symbols[: dictionary.nspecial]
    indices = {s: n for s, n in dictionary.indices.items() if s not in special}
    return number_lines(lines, indices, dictionary.unk(), dictionary.eos())


def text_to_score(path: Path) -> list[str]:
    """The lines of a text, plain or .gz, that is not empty."""
    lines = list(read_lines(path))
    if not any(map(str.split, lines)):
        raise UserError(f"{path}: the text is empty: there is nothing to score")
    return lines


def count_represented(
    lines: list[str], encoded: list[str], pipeline: Pipeline
) -> tuple[TextCounts, int]:
    """Count the part of a text that a pipeline's tokens represent, and the lines that lose words.

    A line that changes, but for Unicode's form, counts as its words joined by single blanks.
    """
    kept, lost = [], 0
    for line, units in zip(lines, encoded, strict=True):
        restored, whole = composed(pipeline.decode(units)), composed(line)
        lost += restored.split() != whole.split()
        kept.append(line if restored == whole else " ".join(line.split()))
    return count_text(kept), lost
