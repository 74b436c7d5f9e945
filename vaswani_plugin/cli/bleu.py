"""`vaswani bleu`: sacreBLEU with its signature, tokenized BLEU, and a reading of the score."""

import argparse
import json
from pathlib import Path

from vaswani_plugin.metrics.bleu import reading, sacrebleu_score, tokenized_score
from vaswani_plugin.metrics.segments import (
    GenerateOutput,
    read_generate_output,
    read_lines,
    remove_bpe,
)

HELP = "score translations: sacreBLEU, tokenized BLEU and what the score means"
EXAMPLE = "vaswani bleu --hypothesis test.hyp.de --reference test.de --format json"


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
        metavar="FILE",
        help="one reference a line; with --generate-output its T lines unless given",
    )
    parser.add_argument("--lowercase", action="store_true", help="ignore case")
    parser.add_argument(
        "--tokenized",
        action="store_true",
        help="the text is tokenized: also print BLEU over its words as they are (multi-bleu)",
    )
    parser.add_argument(
        "--remove-bpe", action="store_true", help='join "@@ " pieces (--generate-output only)'
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")


def read_segments(args: argparse.Namespace) -> tuple[list[str], list[str], list[str]]:
    """(hypotheses, tokenized hypotheses, references) as the flags ask.

    Raises OSError and ValueError: unreadable, empty or mismatched files; flags that don't fit.
    """
    if args.generate_output is None:
        if args.reference is None:
            raise ValueError("--hypothesis needs --reference FILE")
        if args.remove_bpe:
            raise ValueError("--remove-bpe goes with --generate-output; --hypothesis is text")
        hypotheses, references = read_lines(args.hypothesis), read_lines(args.reference)
        _check_count(args.hypothesis, hypotheses, args.reference, references)
        return hypotheses, hypotheses, references
    output = _generate_output(args)
    references = output.references
    if args.reference is not None:
        references = read_lines(args.reference)
        _check_count(args.generate_output, output.detokenized, args.reference, references)
    elif not references:
        raise ValueError(f"{args.generate_output}: no T lines; give --reference FILE")
    return output.detokenized, output.hypotheses, references


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


def _check_count(path: Path, lines: list[str], other_path: Path, other: list[str]) -> None:
    if len(lines) != len(other):
        raise ValueError(
            f"{path} has {len(lines)} segments, {other_path} has {len(other)}: they must match "
            "line by line"
        )


def run(args: argparse.Namespace) -> int:
    """Score and print; returns 0."""
    hypotheses, words, references = read_segments(args)
    score = sacrebleu_score(hypotheses, references, args.lowercase, knowingly=args.tokenized)
    tokenized = tokenized_score(words, references, args.lowercase) if args.tokenized else None
    result = {
        "tokenized": tokenized.score if tokenized else None,
        "compound_split": None,
        "sacrebleu": score.score,
        "signature": score.signature,
        "reading": reading(score.score),
    }
    if args.format == "json":
        print(json.dumps(result))
        return 0
    if tokenized:
        print(f"tokenized BLEU  {tokenized.score:.2f}")
    print(f"sacreBLEU       {score.score:.2f}  {score.signature}")
    print(f"reading         {result['reading']}")
    return 0
