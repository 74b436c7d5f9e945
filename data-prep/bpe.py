"""Byte-pair encoding (Sennrich et al. 2016): learns joint codes, applies them.

    bpe.py learn --input train.en train.de --operations 37000 --output codes
    bpe.py apply --codes codes --input train.en --output train.bpe.en

`learn` counts all inputs together: both languages share one table of merges. The results are the
same, byte for byte, as those of subword-nmt's commands. `sed 's/@@ //g'` undoes `apply`.

A joint table can produce subwords that the training text of a language does not have. As
subword-nmt advises, count the subwords of each language, then apply the codes again with a
threshold:

    subword-nmt get-vocab --input train.bpe.en --output vocabulary.en
    bpe.py apply --codes codes --vocabulary vocabulary.en --vocabulary-threshold 50 \\
        --input train.en --output train.bpe.en

BPE-dropout (Provilkov et al. 2020), for training texts only: `subword-nmt apply-bpe --dropout 0.1`.
"""

import os
from functools import partial

from checkout import at_least, parser, report, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.bpe import make_encoder
from vaswani_plugin.text.bpe_learning import learn
from vaswani_plugin.text.parallel import process_file


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    commands = flags.add_subparsers(dest="command", required=True)
    add = (learning := commands.add_parser("learn", help="learn merge operations")).add_argument
    add("--input", nargs="+", required=True, help="text files, plain or .gz")
    add("--output", required=True, help="the file of the codes")
    add("--operations", type=int, default=10000, help="merge operations (default: 10000)")
    add("--min-frequency", type=int, default=2, help="merge no rarer pair (default: 2)")
    add = (applying := commands.add_parser("apply", help="split words into subwords")).add_argument
    add("--codes", required=True, help="the output of `learn`")
    add("--vocabulary", help="use only subwords in this file, of get-vocab")
    add("--vocabulary-threshold", type=int, default=0, help="and as frequent (default: 0)")
    add("--input", default="-", help="plain or .gz (default: standard input)")
    add("--output", default="-", help="file (default: standard output)")
    for command in (learning, applying):
        command.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    args = flags.parse_args()
    at_least(args, workers=1, operations=1, min_frequency=1)
    if args.command == "learn":
        count = learn(args.input, args.operations, args.min_frequency, args.output, args.workers)
        report(f"{count} merge operations: {args.output}", args.output)
    else:
        if args.vocabulary_threshold and not args.vocabulary:
            raise UserError("--vocabulary-threshold: needs --vocabulary FILE")
        factory = partial(make_encoder, args.codes, args.vocabulary, args.vocabulary_threshold)
        process_file(factory, args.input, args.output, args.workers)


if __name__ == "__main__":
    run(main)
