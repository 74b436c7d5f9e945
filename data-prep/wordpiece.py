"""Word pieces (sentencepiece) for raw, untokenized text: learns, applies and undoes them.

    wordpiece.py learn --input train.en train.fr --size 32000 --output pieces.model
    wordpiece.py apply --model pieces.model --input train.en --output train.pieces.en
    wordpiece.py dictionary --model pieces.model --output dict.txt
    wordpiece.py undo --model pieces.model --input output.pieces.fr --output output.fr

`learn` counts all inputs together: both languages share one model. The text needs no tokenizer, and
the output no detokenizer. `dictionary` lists all pieces for fairseq-preprocess --srcdict, so that
characters missing from the training text do not become <unk>. Unlike fairseq's --remove-bpe
sentencepiece, `undo` also restores rare characters that were written as bytes.
"""

import argparse
import os
from functools import partial

import checkout  # noqa: F401

from vaswani_plugin.text.messages import InputError, run
from vaswani_plugin.text.output_files import write_atomically, write_bytes_atomically
from vaswani_plugin.text.parallel import process_file
from vaswani_plugin.text.wordpiece import (
    KINDS,
    SAMPLE,
    dictionary_lines,
    learn,
    load,
    make_decoder,
    make_encoder,
)

INPUT = "text, plain or .gz (default: standard input)"
CORES = os.cpu_count() or 1
WORKERS = "processes (default: one per core)"


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    learning = commands.add_parser("learn", help="learn a model of pieces")
    learning.add_argument("--input", nargs="+", required=True, help="raw text files, plain or .gz")
    learning.add_argument("--output", required=True, help="model file; .model is added if missing")
    learning.add_argument(
        "--size", type=int, default=32000, help="number of pieces (default: 32000)"
    )
    learning.add_argument(
        "--at-most",
        action="store_true",
        help="accept fewer pieces than --size if the text is too small",
    )
    learning.add_argument(
        "--kind",
        choices=KINDS,
        default="unigram",
        help="unigram: keep the pieces that make the text most likely (default); bpe: merge the "
        "most frequent pairs; likelihood: merge the pairs that make the text most likely, as "
        "published (slow beyond a few million words)",
    )
    learning.add_argument(
        "--sample",
        type=int,
        default=SAMPLE,
        metavar="LINES",
        help="learn from at most so many lines, evenly spaced in the text, which limits the "
        f"memory (default: {SAMPLE})",
    )
    for name, help_text in (("apply", "split text into pieces"), ("undo", "join pieces to text")):
        applying = commands.add_parser(name, help=help_text)
        applying.add_argument("--model", required=True, help="the output of `learn`")
        applying.add_argument("--input", default="-", help=INPUT)
        applying.add_argument("--output", default="-", help="file (default: standard output)")
        applying.add_argument("--workers", type=int, default=CORES, help=WORKERS)
    listing = commands.add_parser("dictionary", help="list all pieces as a fairseq dictionary")
    listing.add_argument("--model", required=True, help="the output of `learn`")
    listing.add_argument("--output", default="-", help="file (default: standard output)")
    return parser.parse_args()


def main() -> None:
    """Command line."""
    args = parse_arguments()
    for name in ("size", "sample", "workers"):
        if getattr(args, name, 1) < 1:
            raise InputError(f"--{name} {getattr(args, name)}: must be at least 1")
    if args.command == "learn":
        output = args.output.removesuffix(".model") + ".model"
        model = learn(args.input, args.size, args.kind, args.sample, args.at_most)
        with write_bytes_atomically(output) as stream:
            stream.write(model)
        print(f"{load(output).get_piece_size()} pieces, {args.kind}: {output}")
    elif args.command == "dictionary":
        lines = dictionary_lines(args.model)
        with write_atomically(args.output) as write:
            for line in lines:
                write(line)
    else:
        make = make_encoder if args.command == "apply" else make_decoder
        process_file(partial(make, args.model), args.input, args.output, args.workers)


if __name__ == "__main__":
    run(main)
