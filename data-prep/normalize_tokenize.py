"""Normalizes punctuation and tokenizes by the rules of Moses, or undoes the tokenization.

    normalize_tokenize.py --language de --lowercase --input train.de.gz --output train.tok.de
    normalize_tokenize.py --language de --detokenize --input hypotheses.tok --output hypotheses

The order is that of the published Multi30k preprocessing: lower-case, normalize punctuation,
tokenize. Each input line gives exactly one output line, the same as that of sacremoses' commands.
"""

import argparse
import os
from functools import partial

import checkout  # noqa: F401

from vaswani_plugin.text.messages import InputError, run
from vaswani_plugin.text.moses import make_detokenizer, make_processor
from vaswani_plugin.text.parallel import process_file


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--language", required=True, help="two-letter code, such as en, de, fr")
    parser.add_argument("--input", default="-", help="text, plain or .gz (default: standard input)")
    parser.add_argument(
        "--output", default="-", help="file, plain or .gz (default: standard output)"
    )
    parser.add_argument("--lowercase", action="store_true", help="convert to lower case")
    parser.add_argument("--no-normalize", action="store_true", help="do not normalize punctuation")
    parser.add_argument("--no-tokenize", action="store_true", help="do not tokenize")
    parser.add_argument(
        "--no-escape", action="store_true", help="do not write & as &amp; and so on"
    )
    parser.add_argument("--aggressive", action="store_true", help="split words at hyphens: a @-@ b")
    parser.add_argument("--detokenize", action="store_true", help="undo the tokenization")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)"
    )
    args = parser.parse_args()
    if args.workers < 1:
        raise InputError(f"--workers {args.workers}: must be at least 1")
    tokenizing = "lowercase no_normalize no_tokenize no_escape aggressive".split()
    if args.detokenize and (given := [name for name in tokenizing if getattr(args, name)]):
        raise InputError(f"--{given[0].replace('_', '-')}: leave it out with --detokenize")
    of_tokens = [name for name in ("no_escape", "aggressive") if getattr(args, name)]
    if args.no_tokenize and of_tokens:
        raise InputError(f"--{of_tokens[0].replace('_', '-')}: leave it out with --no-tokenize")
    if args.detokenize:
        factory = partial(make_detokenizer, args.language)
    else:
        factory = partial(
            make_processor,
            args.language,
            args.lowercase,
            not args.no_normalize,
            not args.no_tokenize,
            args.aggressive,
            not args.no_escape,
        )
    process_file(factory, args.input, args.output, args.workers)


if __name__ == "__main__":
    run(main)
