"""`vaswani attention`: the weights of each head, for a sentence or over a corpus."""

import argparse
import json
import os
import sys
from pathlib import Path

from vaswani_plugin.analysis.figures import check_plot_path

HELP = "show what every head attends to: pictures, a page to explore, weights, statistics"
EXAMPLE = (
    'vaswani attention --model work/quickstart/model --source "The doctor sleeps." '
    "--words --output attention.html figure.svg"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--model", type=Path, metavar="DIR", help="a bundle, which takes raw text")
    model.add_argument("--path", type=Path, metavar="FILE", help="a checkpoint: takes tokens")
    parser.add_argument("--data", type=Path, metavar="DIR", help="with --path: binarized data")
    parser.add_argument("--bpe-codes", type=Path, metavar="FILE", help="with --path: split words")
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("--source", metavar="TEXT", help="a sentence")
    text.add_argument(
        "--corpus",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="what the heads attend to over all lines: sources and, in a second file, targets",
    )
    parser.add_argument("--target", metavar="TEXT", help="its translation (default: the model's)")
    parser.add_argument("--words", action="store_true", help="merge subwords to words")
    parser.add_argument("--kind", choices=["cross", "decoder", "encoder"], default="cross")
    parser.add_argument("--layer", type=int, help="number from 1 (default: the last)")
    parser.add_argument("--heads", type=int, nargs="+", metavar="H", help="from 1 (default: all)")
    parser.add_argument(
        "--lines",
        action="store_true",
        help="draw the paper's Figures 3 to 5 (tokens joined by lines) instead of heat maps",
    )
    parser.add_argument("--word", help="draw the lines of this word alone; implies --lines")
    parser.add_argument(
        "--output",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="by suffix: .html (all layers and heads, to explore), .json (their weights), or a "
        "picture such as .png, .svg (default: attention.png; none with --corpus or json)",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")


def _check(args: argparse.Namespace) -> None:
    """Refuse wrong flags before the model is loaded."""
    if args.path is not None and args.data is None:
        raise ValueError("--path needs --data, the binarized data with the dictionaries")
    if args.model is not None and (args.data or args.bpe_codes):
        raise ValueError("--data and --bpe-codes go with --path: a bundle has its own")
    if args.corpus is not None:
        if len(args.corpus) > 2:
            raise ValueError(f"--corpus takes one file or two, not {len(args.corpus)}")
        of_sentence = {"--target": args.target, "--word": args.word, "--lines": args.lines}
        of_sentence |= {"--layer": args.layer, "--heads": args.heads}
        for flag, value in of_sentence.items():
            if value:
                raise ValueError(f"{flag} goes with --source, not with --corpus")
    for path in args.output or []:
        if path.suffix == ".html" and args.corpus is not None:
            raise ValueError(f"{path}: a page shows a sentence; of a corpus give .png or .json")
        if path.suffix not in (".html", ".json"):
            check_plot_path(path)
        elif not path.parent.is_dir():
            raise FileNotFoundError(2, "No such folder", str(path.parent))


def run(args: argparse.Namespace) -> int:
    """Show a sentence or a corpus.

    Raises:
        ValueError: flags that don't fit, a layer, head or word that isn't there, an empty
            sentence, a model without per-head weights.
        OSError: a file can't be read or written.
    """
    if args.corpus is None and args.output is None:
        args.output = [Path("attention.png")] if args.format == "text" else []
    _check(args)
    from vaswani_plugin.analysis import attention_report as report
    from vaswani_plugin.analysis.attention_statistics import as_table, corpus_statistics
    from vaswani_plugin.interchange.translation import load_checkpoint_translator, load_translator

    if args.model is not None:
        translator = load_translator(args.model)
    else:
        translator = load_checkpoint_translator(args.path, args.data, args.bpe_codes)
    merge = translator.pipeline.subwords if args.words else None
    if args.corpus is not None:
        pairs = report.read_corpus(args.corpus)
        attentions = report.attend_pairs(translator, pairs, args.corpus[0], merge)
        statistics = corpus_statistics(attentions)
        report.write_statistics(statistics, args.output or [])
        numbers = report.statistics_as_json(statistics)
        text = as_table(statistics) if args.format == "text" else json.dumps(numbers)
    else:
        attention = translator.attention(args.source, args.target)
        for flag, unknown in zip(("--source", "--target"), attention.unknown, strict=True):
            if unknown:
                print(f"{flag}: {unknown} tokens are unknown to the model", file=sys.stderr)
        attention = attention.merged(merge) if merge else attention
        view = report.View(args.kind, args.layer, args.heads, args.lines, args.word, args.words)
        report.write_sentence(attention, view, args.output)
        text = json.dumps(report.as_json(attention)) if args.format == "json" else ""
    if text:
        print(text)
    for path in args.output or []:
        print(os.path.abspath(path), file=sys.stderr if text else sys.stdout)
    return 0
