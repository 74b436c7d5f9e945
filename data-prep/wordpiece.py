"""Word pieces by sentencepiece for raw, untokenized text: learns, applies and undoes them.

    wordpiece.py learn --input train.en train.fr --size 32000 --output pieces.model
    wordpiece.py apply --model pieces.model --input train.en --output train.pieces.en
    wordpiece.py dictionary --model pieces.model --output dict.txt
    wordpiece.py undo --model pieces.model --input output.pieces.fr --output output.fr

One model for both languages: all inputs of `learn` are taken together. Needs no tokenizer before
and no detokenizer after. `dictionary` lists every piece for fairseq-preprocess --srcdict, so that
a letter that training never saw is no <unk>. `undo` also joins the bytes of rare letters, which
fairseq's --remove-bpe sentencepiece leaves as they are.
"""

import argparse
import os
from functools import partial

import checkout  # noqa: F401

from vaswani_plugin.text.corpus_io import InputError, run, write_atomically, write_bytes_atomically
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


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    learning = commands.add_parser("learn", help="learn a model of pieces")
    learning.add_argument("--input", nargs="+", required=True, help="raw texts, plain or .gz")
    learning.add_argument("--output", required=True, help="the model; .model is added if missing")
    learning.add_argument("--size", type=int, default=32000, help="pieces (default 32000)")
    learning.add_argument(
        "--at-most",
        action="store_true",
        help="take fewer pieces than --size where the text doesn't give as many",
    )
    learning.add_argument(
        "--kind",
        choices=KINDS,
        default="unigram",
        help="keep the pieces that make the text most likely (unigram, the default), merge the "
        "most frequent pairs (bpe), or merge the pairs that make it most likely (likelihood, as "
        "published; for up to a few million words)",
    )
    learning.add_argument(
        "--sample",
        type=int,
        default=SAMPLE,
        metavar="LINES",
        help="of a larger corpus learn from so many lines, evenly spaced; bounds memory "
        f"(default {SAMPLE})",
    )
    for name, help_text in (("apply", "text into pieces"), ("undo", "pieces back into text")):
        applying = commands.add_parser(name, help=help_text)
        applying.add_argument("--model", required=True, help="from `learn`")
        applying.add_argument("--input", default="-", help="plain or .gz (default: standard input)")
        applying.add_argument("--output", default="-", help="(default: standard output)")
        applying.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    listing = commands.add_parser("dictionary", help="all pieces as a dictionary of fairseq's")
    listing.add_argument("--model", required=True, help="from `learn`")
    listing.add_argument("--output", default="-", help="(default: standard output)")
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
