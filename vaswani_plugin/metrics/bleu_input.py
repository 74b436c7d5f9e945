"""Reads the text that `vaswani bleu` scores, and checks that all sides have equal lengths."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vaswani_plugin.metrics.segments import GenerateOutput, read_generate_output, read_lines
from vaswani_plugin.text import coding


@dataclass(frozen=True)
class Segments:
    """The text to score, as lists of equal length.

    references: one or more lists. baseline, sources: None where they aren't given.
    """

    hypotheses: list[str]
    references: list[list[str]]
    baseline: list[str] | None = None
    sources: list[str] | None = None


def read_segments(
    hypothesis: Path | None,
    generate_output: Path | None,
    references: Sequence[Path] | None,
    baseline: Path | None = None,
    source: Path | None = None,
    *,
    tokenized: bool,
    join_bpe: bool,
) -> Segments:
    """Read the text to score.

    Args:
        hypothesis: file with one translation a line.
        generate_output: output of fairseq-generate, instead of `hypothesis`.
        references: a file for each list of references; None: the T lines of `generate_output`.
        baseline: translations of another system.
        source: the source text.
        tokenized: score the H lines of `generate_output`.
        join_bpe: join "@@ " pieces of `generate_output`.

    Raises:
        ValueError: no references, or an empty, mismatched or malformed file; names the file or the
            flag.
        OSError: a file can't be read.
    """
    if generate_output is None:
        if hypothesis is None or references is None:
            raise ValueError("--hypothesis needs --reference FILE")
        if join_bpe:
            raise ValueError("--remove-bpe goes with --generate-output; --hypothesis is text")
        name, hypotheses = hypothesis, read_lines(hypothesis)
        golds = list[list[str]]()
    else:
        name, output = generate_output, _read_output(generate_output, tokenized, join_bpe)
        hypotheses, golds = output.detokenized, [output.references]
    if references is not None:
        golds = [_read_matching(path, name, hypotheses) for path in references]
        for path, lines in zip(references, golds, strict=True):
            if not any(map(str.strip, lines)):
                raise ValueError(f"{path}: every line is blank; a reference needs words")
    elif not golds[0]:
        raise ValueError(f"{name}: no T lines; give --reference FILE")
    others = [
        None if path is None else _read_matching(path, name, hypotheses)
        for path in (baseline, source)
    ]
    return Segments(hypotheses, golds, *others)


def _read_output(path: Path, tokenized: bool, join_bpe: bool) -> GenerateOutput:
    output = read_generate_output(path)
    if tokenized and output.hypotheses != output.detokenized:
        raise ValueError(
            f"--tokenized: the references of {path} are detokenized, its H lines are not; give "
            "tokenized text with --hypothesis and --reference"
        )
    if not join_bpe:
        return output
    joined = [output.hypotheses, output.detokenized, output.references]
    return GenerateOutput(*([coding.join_bpe(line) for line in lines] for lines in joined))


def _read_matching(path: Path, other: Path, expected: list[str]) -> list[str]:
    lines = read_lines(path)
    if len(lines) != len(expected):
        raise ValueError(
            f"{other} has {len(expected)} segments, {path} has {len(lines)}: they must match "
            "line by line"
        )
    return lines
