"""Byte-pair encoding (Sennrich et al. 2016): learns joint codes, applies them.

    bpe.py learn --input train.en train.de --operations 37000 --output codes
    bpe.py apply --codes codes --input train.en --output train.bpe.en

`learn` counts all inputs together: both languages share one table of merges. The results are those
of subword-nmt's commands for text in Unicode's form NFC. `sed 's/@@ //g'` undoes `apply`.

A joint table can produce subwords that the training text of a language does not have. As
subword-nmt advises, count a language's subwords, then apply the codes again with a threshold:

    subword-nmt get-vocab --input train.bpe.en --output vocabulary.en
    bpe.py apply --codes codes --vocabulary vocabulary.en --vocabulary-threshold 50 \\
        --input train.en --output train.bpe.en

BPE-dropout (Provilkov et al. 2020), for training texts only: `subword-nmt apply-bpe --dropout 0.1`.
"""

from functools import partial

from checkout import Flags, report, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.outputs import check_outputs
from vaswani_plugin.files.parallel import process_file
from vaswani_plugin.text.bpe import make_encoder
from vaswani_plugin.text.bpe_learning import learn


def main(flags: Flags) -> None:
    commands = flags.add_subparsers(dest="command", required=True)
    learning = commands.add_parser("learn", help="learn merge operations")
    learning.add("--input", nargs="+", required=True, help="text files, plain or .gz")
    learning.add("--output", required=True, help="the file of the codes")
    learning.number("--operations", 10000, "merge operations (default: 10000)")
    learning.number("--min-frequency", 2, "merge no rarer pair (default: 2)")
    learning.workers()
    applying = commands.add_parser("apply", help="split words into subwords")
    applying.add("--codes", required=True, help="the output of `learn`")
    applying.streams()
    applying.add("--vocabulary", help="use only subwords in this file, of get-vocab")
    applying.number("--vocabulary-threshold", 0, "and as frequent (default: 0)", 0)
    args = flags.parse_args()
    if args.command == "learn":
        check_outputs("--output", [args.output], args.input)
        count = learn(args.input, args.operations, args.min_frequency, args.output, args.workers)
        report(f"{count} merge operations: {args.output}", args.output)
    else:
        if args.vocabulary_threshold and not args.vocabulary:
            raise UserError("--vocabulary-threshold: needs --vocabulary FILE")
        factory = partial(make_encoder, args.codes, args.vocabulary, args.vocabulary_threshold)
        process_file(factory, args.input, args.output, args.workers, args.codes, args.vocabulary)


if __name__ == "__main__":
    run(main, __doc__)
