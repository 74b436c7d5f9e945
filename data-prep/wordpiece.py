"""Word pieces (sentencepiece) for raw, untokenized text: learns, applies and undoes them.

    wordpiece.py learn --input train.en train.fr --size 32000 --output pieces.model
    wordpiece.py apply --model pieces.model --input train.en --output train.pieces.en
    wordpiece.py dictionary --model pieces.model --output dict.txt
    wordpiece.py undo --model pieces.model --input output.pieces.fr --output output.fr

`learn` counts all inputs together: both languages share one model. The text needs no tokenizer, and
the output no detokenizer; `undo` gives back the characters of the text as they were. `dictionary`
lists all pieces for fairseq-preprocess --srcdict, so that characters missing from the training text
do not become <unk>.

Kinds: unigram keeps the pieces that make the text most likely; bpe merges the most frequent pairs;
likelihood merges the pairs that make the text most likely, as published (slow beyond a few million
words).
"""

import os
from functools import partial

from checkout import at_least, parser, report, run
from sentencepiece import SentencePieceProcessor

from vaswani_plugin.text import wordpiece
from vaswani_plugin.text import wordpiece_learning as learning
from vaswani_plugin.text.outputs import write_atomically, write_bytes_atomically
from vaswani_plugin.text.parallel import process_file


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    commands = flags.add_subparsers(dest="command", required=True)
    add = commands.add_parser("learn", help="learn a model of pieces").add_argument
    add("--input", nargs="+", required=True, help="raw text files, plain or .gz")
    add("--output", required=True, help="model file; .model is added if missing")
    add("--size", type=int, default=32000, help="number of pieces (default: 32000)")
    add("--at-most", action="store_true", help="accept fewer pieces if the text is too small")
    add("--kind", choices=learning.KINDS, default="unigram", help="(default: unigram)")
    sample = f"learn from so many lines, evenly spaced (default: {learning.SAMPLE})"
    add("--sample", type=int, default=learning.SAMPLE, metavar="LINES", help=sample)
    for name, what in (("apply", "split text into pieces"), ("undo", "join pieces to text")):
        add = commands.add_parser(name, help=what).add_argument
        add("--model", required=True, help="the output of `learn`")
        add("--input", default="-", help="plain or .gz (default: standard input)")
        add("--output", default="-", help="file (default: standard output)")
        add("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: cores)")
    add = commands.add_parser("dictionary", help="list the pieces for fairseq").add_argument
    add("--model", required=True, help="the output of `learn`")
    add("--output", default="-", help="file (default: standard output)")
    args = flags.parse_args()
    at_least(args, size=1, sample=1, workers=1)
    if args.command == "learn":
        output = args.output
        if not output.startswith(("-", "/dev/")):
            output = output.removesuffix(".model") + ".model"
        model = learning.learn(args.input, args.size, args.kind, args.sample, args.at_most)
        with write_bytes_atomically(output) as stream:
            stream.write(model)
        pieces = SentencePieceProcessor(model_proto=model).get_piece_size()
        report(f"{pieces} pieces, {args.kind}: {output}", output)
    elif args.command == "dictionary":
        lines = wordpiece.dictionary_lines(args.model)
        with write_atomically(args.output) as write:
            for line in lines:
                write(line)
    else:
        applies = args.command == "apply"
        make = wordpiece.make_encoder if applies else wordpiece.make_decoder
        process_file(partial(make, args.model), args.input, args.output, args.workers)


if __name__ == "__main__":
    run(main)
