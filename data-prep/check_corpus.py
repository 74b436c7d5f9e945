"""Checks a parallel corpus and, on request, writes a cleaned copy.

    check_corpus.py train.en train.de
    check_corpus.py train.en train.de --clean clean.en clean.de --max-length 250 --max-ratio 1.5

The check fails on what would make a training silently wrong: sides of different length, an empty
file, an empty side, invalid UTF-8, a carriage return inside a line (fairseq ends the line there).
With --clean, pairs that break a rule are dropped, and the report says how many each rule removed
(a pair counts for the first rule it breaks): what the check fails on; control characters other
than the tab; length and ratio, in words between white space, as Moses' clean-corpus-n.perl counts
them; a word of more than 1,000 characters; on request exact duplicates, found by 8-byte hashes in
12 to 24 bytes of memory a pair (n pairs lose n^2 / 2^65 wrongly: 0.00004 of 36 million).
"""

import argparse
import json
import os

import checkout  # noqa: F401

from vaswani_plugin.text.cleaning import Report, Rules, check, clean
from vaswani_plugin.text.corpus_io import InputError, run


def text_report(result: Report) -> str:
    """Formats the counts for people, one a line."""
    lines = []
    for key, value in result.items():
        if isinstance(value, dict):
            lines += [f"removed, {rule}: {count:,}" for rule, count in value.items()]
        else:
            lines.append(f"{key.replace('_', ' ')}: {value:,}")
    return "\n".join(lines)


def check_outputs(outputs: list[str], inputs: list[str]) -> None:
    """Refuses outputs that would overwrite each other or an input.

    Raises:
        InputError: an output is refused; names the file.
    """
    taken = {os.path.realpath(path) for path in inputs}
    for path in outputs:
        if os.path.realpath(path) in taken:
            raise InputError(f"--clean {path}: the two outputs and the inputs must all differ")
        taken.add(os.path.realpath(path))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="one side, plain or .gz")
    parser.add_argument("target", help="the other side")
    parser.add_argument("--clean", nargs=2, metavar=("OUT_SOURCE", "OUT_TARGET"))
    parser.add_argument("--min-length", type=int, default=1, help="words (default 1)")
    parser.add_argument("--max-length", type=int, default=250, help="words (default 250)")
    parser.add_argument(
        "--max-ratio", type=float, default=1.5, help="longer side over shorter (default 1.5)"
    )
    parser.add_argument("--drop-duplicates", action="store_true", help="keep each pair once")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    args = parser.parse_args()
    rules = Rules(args.min_length, args.max_length, args.max_ratio, args.drop_duplicates)
    if args.clean:
        check_outputs(args.clean, [args.source, args.target])
        result = clean(args.source, args.target, tuple(args.clean), rules)
    else:
        result = check(args.source, args.target)
    print(json.dumps(result) if args.format == "json" else text_report(result))


if __name__ == "__main__":
    run(main)
