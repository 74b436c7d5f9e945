"""Byte-pair encoding (Sennrich et al. 2016): learns joint codes, applies them.

    bpe.py learn --input train.en train.de --operations 37000 --output codes
    bpe.py apply --codes codes --input train.en --output train.bpe.en

One table for both languages: all inputs of `learn` are counted together. The results are those of
subword-nmt's own commands, byte for byte. `sed 's/@@ //g'` undoes `apply`.

So that no unit comes up which the training text of its language never shows, subword-nmt advises to
write down each language's units, then to apply the codes again with a threshold:

    bpe.py vocabulary --input train.bpe.en --output vocabulary.en
    bpe.py apply --codes codes --vocabulary vocabulary.en --vocabulary-threshold 50 \\
        --input train.en --output train.bpe.en

BPE-dropout (Provilkov et al. 2020), for training texts only: `apply --dropout 0.1 --seed 1`.
"""

import argparse
import os

import checkout  # noqa: F401

from vaswani_plugin.text.bpe import apply, learn, write_vocabulary
from vaswani_plugin.text.corpus_io import InputError, run


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    learning = commands.add_parser("learn", help="learn merge operations")
    learning.add_argument("--input", nargs="+", required=True, help="texts, plain or .gz")
    learning.add_argument("--output", required=True, help="the codes")
    learning.add_argument("--operations", type=int, default=10000, help="merges (default 10000)")
    learning.add_argument("--min-frequency", type=int, default=2, help="stop below (default 2)")
    applying = commands.add_parser("apply", help="split words into subwords")
    applying.add_argument("--codes", required=True, help="from `learn`")
    applying.add_argument("--input", default="-", help="plain or .gz (default: standard input)")
    applying.add_argument("--output", default="-", help="(default: standard output)")
    applying.add_argument("--vocabulary", help="write no unit that is not in this file")
    applying.add_argument(
        "--vocabulary-threshold", type=int, default=0, help="nor one rarer than this"
    )
    applying.add_argument("--dropout", type=float, default=0, help="leave out merges: probability")
    applying.add_argument("--seed", type=int, default=1, help="of the dropout (default 1)")
    counting = commands.add_parser("vocabulary", help="units and their frequencies")
    counting.add_argument("--input", default="-", help="a text after `apply` (default: stdin)")
    counting.add_argument("--output", default="-", help="(default: standard output)")
    for command in (learning, applying, counting):
        command.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
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
