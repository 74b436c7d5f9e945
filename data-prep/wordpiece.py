"""Word pieces (sentencepiece) for raw, untokenized text: learns, applies and undoes them.

    wordpiece.py learn --input train.en train.fr --size 32000 --output pieces.model
    wordpiece.py apply --model pieces.model --input train.en --output train.pieces.en
    wordpiece.py dictionary --model pieces.model --output dict.txt
    wordpiece.py undo --model pieces.model --input output.pieces.fr --output output.fr

`learn` counts all inputs together: both languages share one model. The text needs no tokenizer, and
the output no detokenizer; `undo` gives back the characters of the text as they were. `dictionary`
lists all pieces for fairseq-preprocess --srcdict, so that no character becomes <unk>.

Kinds: unigram keeps the pieces that make the text most likely; bpe merges the most frequent pairs;
likelihood merges pairs to make the text most likely, as published (slow beyond millions of words).
"""

from functools import partial

from checkout import Flags, report, run
from sentencepiece import SentencePieceProcessor

from vaswani_plugin.files.outputs import check_outputs, write_bytes_atomically, write_lines
from vaswani_plugin.files.parallel import process_file
from vaswani_plugin.text import wordpiece
from vaswani_plugin.text import wordpiece_learning as learning


def main(flags: Flags) -> None:
    commands = flags.add_subparsers(dest="command", required=True)
    learn = commands.add_parser("learn", help="learn a model of pieces")
    learn.add("--input", nargs="+", required=True, help="raw text files, plain or .gz")
    learn.add("--output", required=True, help="model file; .model is added if missing")
    learn.number("--size", 32000, "number of pieces (default: 32000)")
    learn.add("--at-most", action="store_true", help="accept fewer pieces if the text is too small")
    learn.add("--kind", choices=learning.KINDS, default="unigram", help="(default: unigram)")
    learn.number("--sample", learning.SAMPLE, "lines to learn from (default: %(default)s)")
    for name, what in (("apply", "split text into pieces"), ("undo", "join pieces to text")):
        command = commands.add_parser(name, help=what)
        command.add("--model", required=True, help="the output of `learn`")
        command.streams()
    listing = commands.add_parser("dictionary", help="list the pieces for fairseq")
    listing.add("--model", required=True, help="the output of `learn`")
    listing.add("--output", default="-", help="file (default: standard output)")
    args = flags.parse_args()
    if args.command == "learn":
        is_device = args.output.startswith(("-", "/dev/"))
        output = args.output if is_device else args.output.removesuffix(".model") + ".model"
        check_outputs("--output", [output], args.input)
        model = learning.learn(args.input, args.size, args.kind, args.sample, args.at_most)
        with write_bytes_atomically(output) as stream:
            stream.write(model)
        pieces = SentencePieceProcessor(model_proto=model).get_piece_size()
        report(f"{pieces} pieces, {args.kind}: {output}", output)
    elif args.command == "dictionary":
        check_outputs("--output", [args.output], [args.model])
        write_lines(args.output, wordpiece.dictionary_lines(args.model))
    else:
        make = wordpiece.make_encoder if args.command == "apply" else wordpiece.make_decoder
        process_file(partial(make, args.model), args.input, args.output, args.workers, args.model)


if __name__ == "__main__":
    run(main, __doc__)
