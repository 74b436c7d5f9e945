"""Checks a parallel corpus and, on request, writes a cleaned copy.

    check_corpus.py train.en train.de
    check_corpus.py train.en train.de --clean clean.en clean.de --max-length 250 --max-ratio 1.5

The check fails if a training on the corpus would be silently wrong: different numbers of lines, an
empty file, an empty side, invalid UTF-8, or a carriage return inside a line (fairseq ends the line
there). With --clean, pairs that break a rule are dropped, and the report counts them by rule (by
the first rule that a pair breaks). The rules are: those of the check; no control characters except
for the tab; limits of length and ratio, in words as Moses' clean-corpus-n.perl counts them; no word
of more than 1,000 characters; with --drop-duplicates, no exact duplicates. Duplicates are found by
8-byte hashes, in 12 to 24 bytes of memory per pair. Of n pairs about n^2 / 2^65 are dropped by
mistake: 0.00004 of 36 million.
"""

import argparse
import json

import checkout  # noqa: F401

from vaswani_plugin.text.cleaning import Report, Rules, check, clean
from vaswani_plugin.text.messages import InputError, run
from vaswani_plugin.text.output_files import check_outputs


def text_report(result: Report) -> str:
    """Formats the counts for people, one a line."""
    lines = []
    for key, value in result.items():
        if isinstance(value, dict):
            lines += [f"removed, {rule}: {count:,}" for rule, count in value.items()]
        else:
            lines.append(f"{key.replace('_', ' ')}: {value:,}")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="source text, plain or .gz")
    parser.add_argument("target", help="target text, plain or .gz")
    clean_files = {"metavar": ("OUT_SOURCE", "OUT_TARGET"), "help": "write a cleaned copy"}
    parser.add_argument("--clean", nargs=2, **clean_files)
    limits = parser.add_argument_group("with --clean").add_argument
    limits("--min-length", type=int, help="least words (default: 1)")
    limits("--max-length", type=int, help="most words (default: 250)")
    ratio = "most words of one side per word of the other (default: 1.5)"
    limits("--max-ratio", type=float, help=ratio)
    limits("--drop-duplicates", action="store_true", default=None, help="drop repeated pairs")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the report")
    args = parser.parse_args()
    names = ("min_length", "max_length", "max_ratio", "drop_duplicates")
    given = {name: value for name in names if (value := getattr(args, name)) is not None}
    if args.clean:
        check_outputs("--clean", args.clean, [args.source, args.target])
        result = clean(args.source, args.target, tuple(args.clean), Rules(**given))
    elif given:
        raise InputError(f"--{next(iter(given)).replace('_', '-')} goes with --clean")
    else:
        result = check(args.source, args.target)
    print(json.dumps(result) if args.format == "json" else text_report(result))


if __name__ == "__main__":
    run(main)
