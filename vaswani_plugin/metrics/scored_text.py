"""The text that a language model scores: a stream of token numbers, and counts of the text.

The end of a line is a token, </s>, as in fairseq-preprocess.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vaswani_plugin.errors import UserError
from vaswani_plugin.metrics.perplexity import TextCounts, count_text
from vaswani_plugin.text.binary import read_numbers
from vaswani_plugin.text.coding import UNKNOWN
from vaswani_plugin.text.dictionary import Dictionary, load_text_dictionary
from vaswani_plugin.text.lines import read_lines
from vaswani_plugin.text.pipeline import Pipeline


@dataclass(frozen=True)
class Tokens:
    """A stream of N tokens.

    Args:
        numbers: (N,).
        sizes: tokens of each line, its end included; they sum to N.
        unknown: number of <unk> that do not come from an <unk> in the text itself. For binarized
            text without its raw text, every <unk> counts.
    """

    numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]
    unknown: int


@dataclass(frozen=True)
class ScoredText:
    """A text to score.

    Args:
        tokens: numbered by `dictionary`; None if neither a model nor a data folder gives one.
        lines: the text; None where it isn't known.
        counts: of the part of the text that the tokens represent.
        coding: kind of token: words, BPE, characters.
        warnings: for the report.
    """

    tokens: Tokens | None
    dictionary: Dictionary | None
    lines: list[str] | None
    counts: TextCounts | None
    coding: str
    warnings: list[str]


def read_scored_text(
    text: Path | None,
    data_bin: Path | None = None,
    split: str = "test",
    dictionary: Dictionary | None = None,
    pipeline: Pipeline | None = None,
    saw_lines_apart: bool = False,
) -> ScoredText:
    """Read the text to score; `text`, `data_bin` or both must be given.

    Args:
        text: raw text.
        data_bin: a folder of binarized text.
        split: of that folder.
        dictionary: of the model; None: there is no model, or `data_bin` has its dictionary.
        pipeline: of the model; None: there is none, or its coding isn't known.
        saw_lines_apart: the model was trained on separate lines, which gives a warning.

    Raises:
        ValueError: a text or a dictionary that can't be used.
        OSError: a file can't be read.
    """
    tokens: Tokens | None = None
    warnings: list[str] = []
    lines = None if text is None else text_to_score(text)
    counts = None if lines is None else count_text(lines)
    if data_bin is not None:
        dictionary = dictionary or load_text_dictionary(data_bin)
        tokens = read_binary(data_bin, split, dictionary)
        if lines is not None:  # an <unk> of the text itself is not unknown
            if len(lines) != len(tokens.sizes):
                raise UserError(
                    f"{text} has {len(lines):,} lines, {data_bin / split} "
                    f"{len(tokens.sizes):,}: they must be the same text"
                )
            said = sum(line.split().count(UNKNOWN) for line in lines)
            tokens = replace(tokens, unknown=max(0, tokens.unknown - said))
    elif pipeline is not None and lines is not None and dictionary is not None:
        encoded = [pipeline.encode(line) for line in lines]
        counts, lost = count_represented(lines, encoded, pipeline)
        tokens = number_by(dictionary, encoded)
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
    if tokens is not None:
        warnings += unknown_warning("the model's coding", tokens)
    coding = getattr(pipeline.settings, "coding", "tokens") if pipeline else "tokens"
    return ScoredText(tokens, dictionary, lines, counts, coding, warnings)


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
    """Number tokens that are separated by blanks, and add the end of each line.

    Args:
        lines: text as tokens.
        indices: number of each token; `unknown` is that of the others.
        end: number of the line end, and of no token.
    """
    numbers, sizes, lost = [], [], 0
    for line in lines:
        words = line.split()
        found = [indices.get(word, unknown) for word in words]
        lost += found.count(unknown) - words.count(UNKNOWN)
        numbers += [*found, end]
        sizes.append(len(found) + 1)
    stream = np.array(numbers, np.int64)
    return Tokens(stream, np.array(sizes, np.int64), lost)


def number_by(dictionary: Dictionary, lines: Iterable[str]) -> Tokens:
    """Number the tokens of text by a dictionary; its special symbols are unknown in a text."""
    special = dictionary.symbols[: dictionary.nspecial]
    indices = {s: n for s, n in dictionary.indices.items() if s not in special}
    return number_lines(lines, indices, dictionary.unk(), dictionary.eos())


def text_to_score(path: Path) -> list[str]:
    """The lines of a text, plain or .gz.

    Raises:
        ValueError: the file is empty, or not UTF-8.
        OSError: the file can't be read.
    """
    lines = list(read_lines(path))
    if not any(map(str.split, lines)):
        raise UserError(f"{path}: the text is empty: there is nothing to score")
    return lines


def read_binary(folder: Path, split: str, dictionary: Dictionary) -> Tokens:
    """A split that fairseq-preprocess --only-source wrote.

    Raises:
        ValueError: the split is missing or empty, or was binarized with another dictionary.
    """
    prefix = folder / split
    if not all(Path(f"{prefix}{end}").is_file() for end in (".idx", ".bin")):
        there = ", ".join(sorted(path.stem for path in folder.glob("*.idx"))) or "none"
        raise UserError(f"{folder} has no split {split!r}; there is: {there}")
    numbers, sizes = read_numbers(prefix)
    if not len(numbers):
        raise UserError(f"{prefix}: the text is empty: there is nothing to score")
    if numbers.min() < 0 or numbers.max() >= len(dictionary):
        raise UserError(
            f"{prefix} holds token {numbers.max()}, its dictionary has {len(dictionary)} "
            "rows: binarize the text again with the model's dictionary"
        )
    unknown = int(np.count_nonzero(numbers == dictionary.unk()))
    return Tokens(numbers.astype(np.int64), sizes, unknown)


def count_represented(
    lines: list[str], encoded: list[str], pipeline: Pipeline
) -> tuple[TextCounts, int]:
    """Count the part of a text that the tokens of a pipeline, those of each line, represent.

    Returns:
        The counts, and the number of lines whose words change by encoding and decoding. A line
        that changes in any way counts as its words joined by single blanks.
    """
    kept, lost = [], 0
    for line, units in zip(lines, encoded, strict=True):
        restored = pipeline.decode(units)
        lost += restored.split() != line.split()
        kept.append(line if restored == line else " ".join(line.split()))
    return count_text(kept), lost
