"""`vaswani attention`: what each head attends to, for a sentence or over a corpus.

Axes: N layers, H heads, T queries, S keys.
"""

import argparse
from pathlib import Path

from vaswani_plugin.analysis.figures import check_plot_path
from vaswani_plugin.cli._start import start_fairseq

HELP = "show what every head attends to: pictures, a page to explore, weights, statistics"
EXAMPLE = (
    'vaswani attention --model work/quickstart/model --source "The doctor sleeps." '
    "--words --output attention.html figure.svg"
)
KINDS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "decoder to encoder",
}
"""The three attentions of section 3.2.3, by the names that --kind takes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--model", type=Path, metavar="DIR", help="a bundle, which takes raw text")
    model.add_argument(
        "--path", type=Path, metavar="FILE", help="a checkpoint, which takes tokenized text"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="with --path: binarized data")
    parser.add_argument(
        "--bpe-codes", type=Path, metavar="FILE", help="with --path: split the text with these"
    )
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
    parser.add_argument("--kind", choices=sorted(KINDS), default="cross")
    parser.add_argument("--layer", type=int, help="number from 1 (default: the last)")
    parser.add_argument(
        "--heads", type=int, nargs="+", metavar="H", help="numbers from 1 (default: all)"
    )
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
    """What can be refused before the model is there."""
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
    start_fairseq()
    from vaswani_plugin.cli import _attention_views

    return _attention_views.run(args)
