"""Byte-pair encoding (Sennrich et al. 2016) by subword-nmt: learns joint codes, applies them.

    bpe.py learn --input train.en train.de --operations 10000 --output codes
    bpe.py apply --codes codes --input train.en --output train.bpe.en

One table for both languages: all inputs of `learn` are counted together. The results are those of
subword-nmt's own commands, byte for byte. `sed 's/@@ //g'` undoes `apply`.
"""

import argparse
import os
from functools import partial

from vaswani_text.bpe import learn, load_codes, make_encoder
from vaswani_text.corpus_io import InputError, run
from vaswani_text.parallel import process_file


def main() -> None:
    """Command line."""
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
    applying.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    args = parser.parse_args()
    if args.command == "learn":
        if args.operations < 1:
            raise InputError(f"--operations {args.operations}: must be at least 1")
        count = learn(args.input, args.operations, args.min_frequency, args.output)
        print(f"{count} merge operations: {args.output}")
    else:
        if args.workers < 1:
            raise InputError(f"--workers {args.workers}: must be at least 1")
        # Read here too: an error in a worker would come back without its one clear line.
        load_codes(args.codes)
        process_file(partial(make_encoder, args.codes), args.input, args.output, args.workers)


if __name__ == "__main__":
    run(main)
