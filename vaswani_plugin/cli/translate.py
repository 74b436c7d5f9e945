"""`vaswani translate`: from raw text to raw text with a bundle, line by line.

Every line gives exactly one line; a line without letters and digits stays as it is.
"""

import argparse
import json
from typing import TYPE_CHECKING

from vaswani_plugin.cli import _flags as flags
from vaswani_plugin.cli._start import load_translator
from vaswani_plugin.cli._types import positive_int
from vaswani_plugin.decoding import PAPER_DECODING
from vaswani_plugin.text.lines import LocatedLines
from vaswani_plugin.text.outputs import check_outputs, line_progress, open_output

if TYPE_CHECKING:
    from vaswani_plugin.inference.results import Translation

HELP = "translate raw text with a bundle, line by line"
EXAMPLE = "vaswani translate --model work/quickstart/model < raw.en > raw.de"
FORMAT = """json: one object per line with line, source and hypotheses (text, score, tokens,
positional_scores, alignment); scores are natural logarithms, the last one that of </s>"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    flags.add_inputs(parser, "a text")
    flags.add_model(parser)
    engine = "what runs the model; fairseq is PyTorch (default: the one that `vaswani export` made "
    engine += "the bundle for, otherwise fairseq)"
    add("--engine", choices=["fairseq", "ctranslate2", "onnxruntime"], help=engine)
    flags.add_output(parser)
    flags.add_beam(parser, PAPER_DECODING["beam"])
    nbest = "print the N best translations of each line; as text: LINE <tab> SCORE <tab> TEXT "
    nbest += "(default: %(default)s, the text alone)"
    add("--nbest", type=positive_int, default=1, metavar="N", help=nbest)
    flags.add_length_penalty(parser, PAPER_DECODING["lenpen"])
    flags.add_format(parser, FORMAT)
    one = "take each line as one sentence, as for test sets; otherwise the sentences of a line are "
    one += "translated one by one, and a sentence longer than those of the training in parts"
    add("--one-sentence-a-line", action="store_true", help=one)
    long = "what to do with a sentence of more subwords than the model takes: stop with an error, "
    long += "translate it in parts, or cut it off (default: %(default)s)"
    add("--long", choices=["error", "split", "truncate"], default="error", help=long)
    flags.add_buffer(parser, 1000)
    flags.add_batch_tokens(parser, 4096, "source subwords")
    flags.add_device(parser)
    flags.add_precision(parser)


def run(args: argparse.Namespace) -> int:
    """Translate; returns 0.

    Raises:
        ValueError: flags that don't fit, a bundle or a line that can't be used.
        OSError: a file can't be read or written.
    """
    inputs = args.inputs or ["-"]
    check_outputs("--output", [args.output], inputs)
    translator = load_translator(args, args.engine)
    raw = LocatedLines(inputs)
    options = {"beam": args.beam, "nbest": args.nbest, "length_penalty": args.lenpen}
    options |= {"batch_tokens": args.batch_tokens, "long": args.long}
    options["one_sentence"] = args.one_sentence_a_line
    options |= {"align": args.format == "json", "buffer": flags.buffer_size(args, inputs)}
    from vaswani_plugin.inference.texts import TextTooLong

    with open_output(args.output) as write, line_progress(inputs, args.output) as bar:
        try:
            for number, translation in enumerate(translator.stream(raw, **options), start=1):
                write(shown(number, translation, args))
                bar.update()
        except TextTooLong as error:
            raise ValueError(
                f"{raw.place(error.number)}: a sentence of {error.count} subwords, the model takes "
                f"{error.longest}: give --long split or --long truncate, or divide the line"
            ) from error
    return 0


def shown(number: int, translation: "Translation", args: argparse.Namespace) -> list[str]:
    """The output lines of a translation: one, or with --format text one for each of --nbest."""
    if args.format == "text" and args.nbest == 1:
        return [translation.text]
    if args.format == "text":
        return [f"{number}\t{h.score:.6f}\t{h.text}" for h in translation.hypotheses]
    entries = [
        {
            "text": h.text,
            "score": h.score,
            "tokens": h.tokens,
            "positional_scores": h.token_scores,
            "alignment": h.alignment,
        }
        for h in translation.hypotheses
    ]
    return [json.dumps({"line": number, "source": translation.source, "hypotheses": entries})]
