"""`vaswani attention`: each head's weights for a sentence, or their statistics over a corpus."""

import argparse
import json
import os
import sys
from pathlib import Path

from vaswani_plugin.cli._flags import add_format
from vaswani_plugin.figures.figures import check_plot_path

HELP = "show what each head attends to: as a picture, an interactive page, numbers or statistics"
EXAMPLE = (
    'vaswani attention --model work/quickstart/model --source "The doctor sleeps." '
    "--words --output attention.html figure.svg"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    model = parser.add_mutually_exclusive_group(required=True)
    bundle = "a bundle; --source and --corpus are raw text"
    model.add_argument("--model", type=Path, metavar="DIR", help=bundle)
    checkpoint = "a checkpoint; --source and --corpus are tokenized text"
    model.add_argument("--path", type=Path, metavar="FILE", help=checkpoint)
    add("--data", type=Path, metavar="DIR", help="with --path: the folder of its dictionaries")
    add("--bpe-codes", type=Path, metavar="FILE", help="with --path: split words by these codes")
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("--source", metavar="TEXT", help="show the attention for this sentence")
    corpus = "statistics of each head over a corpus: a source file and, optionally, its target file"
    text.add_argument("--corpus", type=Path, nargs="+", metavar="FILE", help=corpus)
    add("--target", metavar="TEXT", help="translation of --source (default: the model's own)")
    add("--words", action="store_true", help="sum the weights of subwords into words")
    kind = "encoder: self-attention, decoder: masked self-attention, cross: encoder-decoder "
    kind += "attention (default: cross)"
    add("--kind", choices=["cross", "decoder", "encoder"], help=kind)
    layer = "layer to draw, from 1 on (default: the last)"
    add("--layer", type=int, metavar="N", help=layer)
    heads = "heads to draw, from 1 on (default: all)"
    add("--heads", type=int, nargs="+", metavar="H", help=heads)
    lines = "draw lines between tokens as in the paper's Figures 3 to 5, not heat maps"
    add("--lines", action="store_true", help=lines)
    add("--word", metavar="TEXT", help="draw only this word's lines; implies --lines")
    output = (
        "format by suffix: .html (interactive, all layers and heads), .json (all weights), .png, "
    )
    output += ".svg, .pdf (default: attention.png; no file with --corpus or --format json)"
    add("--output", type=Path, nargs="+", metavar="FILE", help=output)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Show a sentence or a corpus.

    Raises:
        ValueError: flags that don't fit, a layer, head or word that isn't there, an empty
            sentence, a model without per-head weights.
        OSError: a file can't be read or written.
    """
    if args.corpus is None and args.output is None:
        args.output = [Path("attention.png")] if args.format == "text" else []
    _check_flags(args)
    from vaswani_plugin.figures import attention_report as report
    from vaswani_plugin.inference.translator import Translator

    if args.model is not None:
        translator = Translator.from_pretrained(args.model)
    else:
        translator = Translator.from_checkpoint(args.path, args.data, args.bpe_codes)
    merge = translator.pipeline.subwords if args.words else None
    if args.corpus is not None:
        pairs = report.read_corpus(args.corpus)
        attentions = report.attend_pairs(translator, pairs, args.corpus[0], merge)
        statistics = report.corpus_statistics(attentions)
        report.write_statistics(statistics, args.output or [])
        text = report.as_table(statistics) if args.format == "text" else json.dumps(statistics)
    else:
        attention = translator.attention(args.source, args.target)
        for flag, unknown in zip(("--source", "--target"), attention.unknown, strict=True):
            if unknown:
                print(f"{flag}: {unknown} tokens are unknown to the model", file=sys.stderr)
        attention = attention.merged(merge) if merge else attention
        view = report.View(
            args.kind or "cross", args.layer, args.heads, args.lines, args.word, args.words
        )
        report.write_sentence(attention, view, args.output)
        text = json.dumps(report.as_json(attention)) if args.format == "json" else ""
    if text:
        print(text)
    for path in args.output or []:
        print(os.path.abspath(path), file=sys.stderr if text else sys.stdout)
    return 0


def _check_flags(args: argparse.Namespace) -> None:
    """Refuse flags that don't fit, before the model is loaded."""
    if args.path is not None and args.data is None:
        raise ValueError("--path needs --data, the binarized data with the dictionaries")
    if args.model is not None and (args.data or args.bpe_codes):
        raise ValueError("--data and --bpe-codes go with --path: a bundle has its own")
    if args.corpus is not None:
        if len(args.corpus) > 2:
            raise ValueError(f"--corpus takes one file or two, not {len(args.corpus)}")
        for name in ("target", "word", "lines", "layer", "heads", "kind"):
            if getattr(args, name) is not None and getattr(args, name) is not False:
                raise ValueError(f"--{name} goes with --source, not with --corpus")
    for path in args.output or []:
        if path.suffix == ".html" and args.corpus is not None:
            raise ValueError(f"{path}: a page shows a sentence; of a corpus give .png or .json")
        if path.suffix not in (".html", ".json"):
            check_plot_path(path)
        elif not path.parent.is_dir():
            raise FileNotFoundError(2, "No such folder", str(path.parent))
