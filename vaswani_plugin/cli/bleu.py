"""`vaswani bleu`: tokenized, compound-split and sacreBLEU, chrF, and a reading of the score."""

import argparse
import json
import re
from pathlib import Path

from vaswani_plugin.analysis.figures import check_plot_path
from vaswani_plugin.metrics.bleu_input import read_segments

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
        "--sacrebleu-tokenizer",
        choices=["13a", "zh", "char", "intl"],
        default="13a",
        help="what sacreBLEU takes for words: zh for Chinese, char for other text without blanks "
        "between words (default: %(default)s)",
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
        help="the training set's source: also print BLEU by how rare a sentence's words are there: "
        "by their average frequency rank, and by the rarest of them (needs --source)",
    )
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the tables (needs --source)")
    parser.add_argument("--format", choices=["text", "json"], default="text")


def check_flags(args: argparse.Namespace) -> None:
    """Refuse flags that don't fit each other.

    Raises:
        ValueError: names the flag and what it goes with.
    """
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


def run(args: argparse.Namespace) -> int:
    """Score and print; returns 0.

    Raises:
        ValueError: flags or files that don't fit together, a text that can't be used.
        OSError: a file can't be read or written.
    """
    check_flags(args)
    from vaswani_plugin.metrics import bleu_report as report  # imports sacreBLEU

    lowercase, tokenized = args.lowercase, args.tokenized
    paths = args.hypothesis, args.generate_output, args.reference, args.baseline, args.source
    segments = read_segments(*paths, tokenized=tokenized, join_bpe=args.remove_bpe)
    split, words = args.compound_split or args.language == "de", args.sacrebleu_tokenizer
    result = report.score(segments, lowercase, args.language, tokenized, split, words)
    if args.confidence or args.baseline:
        result |= report.compare(segments, lowercase, tokenized, words)
    if args.source:
        result |= report.by_bucket(segments, lowercase, args.training_source, words)
    if args.plot:
        from vaswani_plugin.analysis.bleu_plot import draw_buckets

        draw_buckets(result, args.plot)
    print(json.dumps(result) if args.format == "json" else report.as_text(result))
    return 0
