"""`vaswani rouge`: ROUGE of summaries, and of the first sentences of their articles."""

import argparse
import json
from pathlib import Path

from vaswani_plugin.cli._flags import add_format
from vaswani_plugin.cli._types import positive_int
from vaswani_plugin.metrics.rouge import OVER, as_text, lead, rouge_report
from vaswani_plugin.text.lines import read_text
from vaswani_plugin.text.summaries import Example, read_examples, split_sentences

HELP = "ROUGE-1, -2, -L and -Lsum of summaries, compared with the articles' first sentences"
EXAMPLE = (
    "vaswani rouge --hypothesis test.hyp --references work/summarization/raw/test.jsonl --lead 1"
)
JSONL = (".jsonl", ".jsonl.gz")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    add("--hypothesis", type=Path, metavar="FILE", help="the summaries to score, one per line")
    references = (
        "reference summaries, one per line, a file for each set of references; or one .jsonl "
    )
    references += "of data-prep/summaries.py, which also holds the articles"
    add("--references", type=Path, nargs="+", required=True, metavar="FILE", help=references)
    first = "also score the first N sentences of each article; may be repeated"
    add("--lead", type=positive_int, action="append", default=[], metavar="N", help=first)
    articles = "for --lead: the articles, one per line"
    add("--articles", type=Path, metavar="FILE", help=articles)
    over = "over several references: take the best F1 or the mean (default: %(default)s)"
    add("--over", choices=OVER, default="best", help=over)
    add("--no-stemming", action="store_true", help="compare whole words, not Porter stems")
    add_format(parser)


def read_all(args: argparse.Namespace) -> list[Example]:
    """Articles (empty where they aren't needed) and references of each summary.

    Raises:
        ValueError: files differ in length, or needed articles are missing.
        OSError: a file can't be read.
    """
    if any(str(path).endswith(JSONL) for path in args.references):
        if len(args.references) > 1 or args.articles:
            raise ValueError(
                f"{args.references[0]}: has all references and articles: give no other file"
            )
        examples = list(read_examples(str(args.references[0])))
        if not examples:
            raise ValueError(f"{args.references[0]}: the file is empty")
        return examples
    files = [list(read_text(path)) for path in args.references]
    for path, lines in zip(args.references, files, strict=True):
        _check_length(path, len(lines), args.references[0], len(files[0]))
    articles: list[list[str]] = [[]] * len(files[0])
    if args.articles:
        articles = [split_sentences(line) for line in read_text(args.articles)]
        _check_length(args.articles, len(articles), args.references[0], len(files[0]))
    elif args.lead:
        raise ValueError("--lead needs --articles FILE, or a .jsonl for --references")
    return [
        Example(*both) for both in zip(articles, map(list, zip(*files, strict=True)), strict=True)
    ]


def _check_length(path: Path, lines: int, other: Path, expected: int) -> None:
    if lines != expected:
        raise ValueError(f"{path} has {lines} lines, {other} has {expected}: they must correspond")


def run(args: argparse.Namespace) -> int:
    """Score and print; returns 0.

    Raises:
        ValueError: flags or files that don't fit together.
        OSError: a file can't be read.
    """
    if not args.hypothesis and not args.lead:
        raise ValueError("nothing to score: give --hypothesis FILE or --lead N")
    if args.articles and not args.lead:
        raise ValueError("--articles goes with --lead N")
    examples = read_all(args)
    systems = {f"lead-{n}": [lead(e.article, n) for e in examples] for n in args.lead}
    if args.hypothesis:
        systems["model"] = list(read_text(args.hypothesis))
        _check_length(args.hypothesis, len(systems["model"]), args.references[0], len(examples))
    references = [example.references for example in examples]
    report = rouge_report(systems, references, args.over, not args.no_stemming)
    print(json.dumps(report) if args.format == "json" else as_text(report))
    return 0
