"""Byte-pair encoding (Sennrich et al. 2016): learns joint codes, applies them.

    bpe.py learn --input train.en train.de --operations 37000 --output codes
    bpe.py apply --codes codes --input train.en --output train.bpe.en

`learn` counts all inputs together: both languages share one table of merges. The results are the
same, byte for byte, as those of subword-nmt's commands. `sed 's/@@ //g'` undoes `apply`.

A joint table can produce subwords that the training text of a language does not have. As
subword-nmt advises, count the subwords of each language, then apply the codes again with a
threshold:

    bpe.py vocabulary --input train.bpe.en --output vocabulary.en
    bpe.py apply --codes codes --vocabulary vocabulary.en --vocabulary-threshold 50 \\
        --input train.en --output train.bpe.en

BPE-dropout (Provilkov et al. 2020), for training texts only: `apply --dropout 0.1 --seed 1`.
"""

import argparse
import os

import checkout  # noqa: F401

from vaswani_plugin.text.bpe import apply, learn, write_vocabulary
from vaswani_plugin.text.messages import InputError, run

CORES = os.cpu_count() or 1
WORKERS = "processes (default: one per core)"


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    learning = commands.add_parser("learn", help="learn merge operations")
    learning.add_argument("--input", nargs="+", required=True, help="text files, plain or .gz")
    learning.add_argument("--output", required=True, help="the file of the codes")
    learning.add_argument(
        "--operations", type=int, default=10000, help="merge operations (default: 10000)"
    )
    learning.add_argument(
        "--min-frequency", type=int, default=2, help="merge no rarer pair (default: 2)"
    )
    applying = commands.add_parser("apply", help="split words into subwords")
    applying.add_argument("--codes", required=True, help="the output of `learn`")
    applying.add_argument(
        "--input", default="-", help="text, plain or .gz (default: standard input)"
    )
    applying.add_argument("--output", default="-", help="file (default: standard output)")
    applying.add_argument("--vocabulary", help="use only subwords in this file, of `vocabulary`")
    applying.add_argument(
        "--vocabulary-threshold",
        type=int,
        default=0,
        help="and only those at least as frequent (default: 0)",
    )
    applying.add_argument(
        "--dropout", type=float, default=0, help="probability of skipping a merge (default: 0)"
    )
    applying.add_argument("--seed", type=int, default=1, help="seed of --dropout (default: 1)")
    counting = commands.add_parser("vocabulary", help="count the subwords of a text")
    counting.add_argument(
        "--input", default="-", help="output of `apply` (default: standard input)"
    )
    counting.add_argument("--output", default="-", help="file (default: standard output)")
    for command in (learning, applying, counting):
        command.add_argument("--workers", type=int, default=CORES, help=WORKERS)
    return parser.parse_args()


def main() -> None:
    """Command line."""
    args = parse_arguments()
    if args.workers < 1:
        raise InputError(f"--workers {args.workers}: must be at least 1")
    if args.command == "learn":
        for name in ("operations", "min_frequency"):
            if getattr(args, name) < 1:
                flag = name.replace("_", "-")
                raise InputError(f"--{flag} {getattr(args, name)}: must be at least 1")
        count = learn(args.input, args.operations, args.min_frequency, args.output, args.workers)
        print(f"{count} merge operations: {args.output}")
    elif args.command == "vocabulary":
        write_vocabulary(args.input, args.output, args.workers)
    else:
        if not 0 <= args.dropout <= 1:
            raise InputError(f"--dropout {args.dropout}: a probability, from 0 to 1")
        if args.vocabulary_threshold and not args.vocabulary:
            raise InputError("--vocabulary-threshold: needs --vocabulary FILE")
        apply(
            args.codes,
            args.input,
            args.output,
            vocabulary=args.vocabulary,
            threshold=args.vocabulary_threshold,
            dropout=args.dropout,
            seed=args.seed,
            workers=args.workers,
        )


if __name__ == "__main__":
    run(main)
