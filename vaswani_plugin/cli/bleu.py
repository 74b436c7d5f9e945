"""`vaswani bleu`: tokenized, compound-split and sacreBLEU, chrF, and a reading of the score."""

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_plugin.cli._figures import check_plot_path
from vaswani_plugin.metrics.segments import (
    GenerateOutput,
    read_generate_output,
    read_lines,
    remove_bpe,
)

if TYPE_CHECKING:
    from vaswani_plugin.cli._bleu_report import Segments

HELP = "score translations: tokenized, compound-split and sacreBLEU, chrF, and what they mean"
EXAMPLE = "vaswani bleu --hypothesis test.hyp.de --reference test.de --language de --format json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--hypothesis", type=Path, metavar="FILE", help="one translation a line")
    source.add_argument(
        "--generate-output",
        type=Path,
        metavar="FILE",
        help="what fairseq-generate printed: sacreBLEU takes its D lines, --tokenized its H lines",
    )
    parser.add_argument(
        "--reference",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="one reference a line; several files: several references of each line; with "
        "--generate-output its T lines unless given",
    )
    parser.add_argument("--lowercase", action="store_true", help="ignore case")
    words = parser.add_mutually_exclusive_group()
    words.add_argument(
        "--language",
        metavar="LL",
        help="the text is running text of this language: also print the scores that papers print, "
        "of its words by Moses' rules: tokenized BLEU, and for de compound-split BLEU",
    )
    words.add_argument(
        "--tokenized",
        action="store_true",
        help="the text is tokenized: also print BLEU over its words as they are (multi-bleu); "
        "sacreBLEU of such text is comparable to no other",
    )
    parser.add_argument(
        "--compound-split",
        action="store_true",
        help="with --tokenized: also print BLEU with hyphens split off (English-German only)",
    )
    parser.add_argument(
        "--remove-bpe", action="store_true", help='join "@@ " pieces (--generate-output only)'
    )
    parser.add_argument(
        "--confidence", action="store_true", help="95%% intervals, by bootstrap resampling"
    )
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="another system's translations: is the difference significant? (paired bootstrap)",
    )
    parser.add_argument(
        "--source", type=Path, metavar="FILE", help="the source: also print BLEU by its length"
    )
    parser.add_argument(
        "--training-source",
        type=Path,
        metavar="FILE",
        help="the training set's source: also print BLEU by how often a sentence's rarest word "
        "stands there (needs --source)",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="PNG", help="draw these two tables (needs --source)"
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")


def check_flags(args: argparse.Namespace) -> None:
    """Refuse flags that don't fit each other.

    Raises:
        ValueError: names the flag and what it goes with.
    """
    if args.generate_output is None and args.reference is None:
        raise ValueError("--hypothesis needs --reference FILE")
    if args.generate_output is None and args.remove_bpe:
        raise ValueError("--remove-bpe goes with --generate-output; --hypothesis is text")
    if args.language is not None and not re.fullmatch("[a-z]{2}", args.language):
        raise ValueError(f"--language {args.language}: give a two-letter code, such as de")
    if args.compound_split and not args.tokenized and args.language != "de":
        raise ValueError(
            "--compound-split goes with --tokenized; --language de splits by itself, and scores of "
            "other languages are never split"
        )
    for flag in ("training_source", "plot"):
        if getattr(args, flag) and not args.source:
            raise ValueError(f"--{flag.replace('_', '-')} needs --source FILE")
    if args.plot:
        check_plot_path(args.plot)


def read_segments(args: argparse.Namespace) -> "Segments":
    """The text that the flags name, all of one length.

    Raises OSError and ValueError: unreadable, empty or mismatched files; flags that don't fit.
    """
    from vaswani_plugin.cli._bleu_report import Segments

    if args.generate_output is None:
        name, hypotheses = args.hypothesis, read_lines(args.hypothesis)
        words, references = hypotheses, []
    else:
        name, output = args.generate_output, _generate_output(args)
        hypotheses, words, references = output.detokenized, output.hypotheses, [output.references]
    if args.reference is not None:
        references = [_read_matching(path, name, hypotheses) for path in args.reference]
        for path, lines in zip(args.reference, references, strict=True):
            if not any(map(str.strip, lines)):
                raise ValueError(f"{path}: every line is blank; a reference needs words")
    elif not references[0]:
        raise ValueError(f"{name}: no T lines; give --reference FILE")
    baseline = args.baseline and _read_matching(args.baseline, name, hypotheses)
    sources = args.source and _read_matching(args.source, name, hypotheses)
    return Segments(hypotheses, words, references, baseline, sources)


def _generate_output(args: argparse.Namespace) -> GenerateOutput:
    output = read_generate_output(args.generate_output)
    if args.tokenized and output.hypotheses != output.detokenized:
        raise ValueError(
            f"--tokenized: the references of {args.generate_output} are detokenized, its H lines "
            "are not; give tokenized text with --hypothesis and --reference"
        )
    if not args.remove_bpe:
        return output
    joined = [output.hypotheses, output.detokenized, output.references]
    return GenerateOutput(*([remove_bpe(line) for line in lines] for lines in joined))


def _read_matching(path: Path, other: Path, expected: list[str]) -> list[str]:
    lines = read_lines(path)
    if len(lines) != len(expected):
        raise ValueError(
            f"{other} has {len(expected)} segments, {path} has {len(lines)}: they must match "
            "line by line"
        )
    return lines


def run(args: argparse.Namespace) -> int:
    """Score and print; returns 0."""
    check_flags(args)
    from vaswani_plugin.cli import _bleu_report as report  # imports sacreBLEU

    segments = read_segments(args)
    result = report.score(
        segments,
        lowercase=args.lowercase,
        language=args.language,
        tokenized=args.tokenized,
        compound_split=args.compound_split or args.language == "de",
    )
    if args.confidence or args.baseline:
        result |= report.compare(segments, args.lowercase, args.tokenized)
    if args.source:
        result |= report.by_bucket(segments, args.lowercase, args.training_source)
    if args.plot:
        report.draw(result, args.plot)
    print(json.dumps(result) if args.format == "json" else report.as_text(result))
    return 0
