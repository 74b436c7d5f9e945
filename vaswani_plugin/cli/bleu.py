"""`vaswani bleu`: tokenized, compound-split and sacreBLEU, chrF, and a reading of the score."""

import argparse
import json
import re
import sys
from pathlib import Path

from vaswani_plugin.cli._flags import add_format
from vaswani_plugin.figures.figures import check_plot_path, draw_buckets
from vaswani_plugin.metrics.segments import has_no_spaces, read_segments

HELP = "score translations: tokenized, compound-split and sacreBLEU, chrF, and a comment on them"
EXAMPLE = "vaswani bleu --hypothesis test.hyp.de --reference test.de --language de --format json"
GENERATED = """output of fairseq-generate; sacreBLEU reads its D lines, --tokenized its H lines"""
REFERENCE = """the references, one per line; several files are several references of each sentence
(default with --generate-output: its T lines)"""
LANGUAGE = """language of running text; also prints the scores that papers print, over words by
Moses' rules: tokenized BLEU and, for de, compound-split BLEU; also chooses sacreBLEU's tokenizer"""
TOKENIZED = """the text is tokenized; also prints BLEU over its words, as multi-bleu does (its
sacreBLEU is then not comparable to published ones)"""
TOKENIZERS = "13a zh ja-mecab ko-mecab char intl".split()
TOKENIZER = """sacreBLEU's tokenizer (default: by --language, as sacreBLEU does: zh, ja-mecab,
ko-mecab; char for other languages without spaces between words; else 13a)"""
TRAINING = """the training set's source; also prints BLEU by how rare a sentence's words are in it:
by their mean frequency rank, and by the rarest word (needs --source)"""
NO_SPACES = (
    "the references have no spaces between words, which tok:13a needs: give --language LL, or "
    "--sacrebleu-tokenizer zh or char"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    scored = parser.add_mutually_exclusive_group(required=True)
    hypothesis = "the translations, one per line"
    scored.add_argument("--hypothesis", type=Path, metavar="FILE", help=hypothesis)
    scored.add_argument("--generate-output", type=Path, metavar="FILE", help=GENERATED)
    add("--reference", type=Path, nargs="+", metavar="FILE", help=REFERENCE)
    add("--lowercase", action="store_true", help="ignore case")
    words = parser.add_mutually_exclusive_group()
    words.add_argument("--language", metavar="LL", help=LANGUAGE)
    words.add_argument("--tokenized", action="store_true", help=TOKENIZED)
    add("--sacrebleu-tokenizer", choices=TOKENIZERS, help=TOKENIZER)
    compounds = "with --tokenized: also print BLEU with words split at hyphens (English-German)"
    add("--compound-split", action="store_true", help=compounds)
    pieces = 'with --generate-output: join "@@ " subwords'
    add("--remove-bpe", action="store_true", help=pieces)
    source = "the source sentences; also prints BLEU by their length"
    add("--source", type=Path, metavar="FILE", help=source)
    add("--training-source", type=Path, metavar="FILE", help=TRAINING)
    add("--plot", type=Path, metavar="FILE", help="draw the tables by length (needs --source)")
    add_format(parser)


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
    from vaswani_plugin.metrics import bleu as report  # imports sacreBLEU

    paths = args.hypothesis, args.generate_output, args.reference, args.source
    options = {"tokenized": args.tokenized, "join_bpe": args.remove_bpe}
    segments = read_segments(*paths, **options, language=args.language)
    tokenizer = args.sacrebleu_tokenizer
    if tokenizer is None:
        tokenizer, warning = report.tokenizer_of(args.language)
        segments.warnings += [warning] if warning else []
        if tokenizer == "13a" and has_no_spaces(segments.references[0]):
            segments.warnings.append(NO_SPACES)
    for warning in segments.warnings:
        print(f"vaswani bleu: {warning}", file=sys.stderr)
    lowercase, split = args.lowercase, args.compound_split or args.language == "de"
    result = report.score(segments, lowercase, args.language, split, tokenizer)
    if args.source:
        result |= report.by_bucket(segments, lowercase, args.training_source, tokenizer)
    if args.plot:
        draw_buckets(result, args.plot)
    print(json.dumps(result) if args.format == "json" else report.as_text(result))
    return 0
