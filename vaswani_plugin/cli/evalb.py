"""`vaswani evalb`: bracketing scores of parse trees, with the same numbers as EVALB."""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from vaswani_plugin.cli._flags import add_format
from vaswani_plugin.metrics.evalb import (
    COLLINS,
    HEAD,
    SentenceScore,
    Totals,
    parse_parameters,
    row,
    score_trees,
    summary,
    total_row,
)
from vaswani_plugin.metrics.segments import read_lines

HELP = "score parse trees as EVALB does: labelled recall, precision, F, crossing, tagging"
EXAMPLE = "vaswani evalb gold.trees parsed.trees --parameters COLLINS.prm --summary"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    add("gold", type=Path, metavar="GOLD", help="file of the reference trees, one per line")
    test = "file of the trees to score, one per line; an empty line is a sentence without a tree"
    add("test", type=Path, metavar="TEST", help=test)
    parameters = (
        "EVALB's parameter file (default: the settings of COLLINS.prm, without its limit on "
    )
    parameters += "errors; /dev/null: EVALB's settings when it gets no file)"
    add("--parameters", type=Path, metavar="FILE.prm", help=parameters)
    add("--summary", action="store_true", help="print only the summary, no row for each sentence")
    add_format(parser)


def read_trees(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The lines of both files, which must have equally many.

    Raises:
        OSError: a file can't be read.
        ValueError: a file is empty, or the files have different numbers of lines.
    """
    gold, test = read_lines(args.gold), read_lines(args.test)
    if len(gold) != len(test):
        raise ValueError(
            f"{args.gold} has {len(gold)} lines, {args.test} has {len(test)}: they must match line "
            "by line; write an empty line for a sentence without a tree"
        )
    return gold, test


def print_sentences(scores: Iterable[SentenceScore]) -> Iterable[SentenceScore]:
    """Print EVALB's table, and yield the scores unchanged."""
    print(HEAD)
    for score in scores:
        print(row(score))
        yield score


def run(args: argparse.Namespace) -> int:
    """Score and print; returns 0.

    Raises:
        ValueError: files that don't fit together, trees or parameters that can't be used.
        OSError: a file can't be read.
    """
    parameters = COLLINS
    if args.parameters:
        text = args.parameters.read_text(encoding="utf-8-sig", errors="replace")
        parameters = parse_parameters(text.split("\n"), str(args.parameters))
    scores = score_trees(*read_trees(args), parameters)
    has_table = args.format == "text" and not args.summary
    if has_table:
        scores = print_sentences(scores)
    totals, short = Totals(), Totals()
    for score in scores:
        for message in score.errors:
            print(f"{score.line} : {message}", file=sys.stderr)
        totals.add(score)
        if score.length <= parameters.cutoff:
            short.add(score)
    if args.format == "json":
        parts = {"all": totals.summary(), f"len_{parameters.cutoff}": short.summary()}
        print(json.dumps(parts))
        return 0
    if has_table:
        print(total_row(totals))
    print(summary(totals, short, parameters.cutoff))
    return 0
