"""`vaswani translate`: from raw text to raw text with a bundle, line by line.

Every line gives exactly one line; an empty line stays empty.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_plugin.cli import _flags as flags
from vaswani_plugin.cli import _lines as lines
from vaswani_plugin.decoding import PAPER_DECODING

if TYPE_CHECKING:
    from vaswani_plugin.inference.results import Translation

HELP = "translate raw text with a bundle (model, dictionaries, subword codes)"
EXAMPLE = "vaswani translate --model work/quickstart/model < raw.en > raw.de"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument("inputs", nargs="*", metavar="FILE", help="text, plain or .gz (default: -)")
    parser.add_argument(
        "--model", type=Path, required=True, metavar="DIR", help="a bundle, as the recipes make it"
    )
    parser.add_argument(
        "--engine",
        choices=["fairseq", "ctranslate2"],
        help="(default: ctranslate2 where the bundle is one of `vaswani export --to ctranslate2`)",
    )
    lines.add_output(parser)
    parser.add_argument(
        "--beam", type=flags.count, help="width (default: that of the bundle, else 4)"
    )
    parser.add_argument(
        "--nbest",
        type=flags.count,
        default=1,
        metavar="N",
        help="give the N best of each line; as text, each as LINE <tab> SCORE <tab> TEXT",
    )
    flags.add_length_penalty(parser, PAPER_DECODING["lenpen"])
    parser.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="json: an object a line with line, source and hypotheses (text, score, tokens, "
        "positional_scores, alignment); scores are natural logarithms, the last positional one "
        "is that of the end of sentence",
    )
    parser.add_argument(
        "--long",
        choices=["error", "split", "truncate"],
        default="error",
        help="what to do with a line of more subwords than the model takes (default: %(default)s, "
        "after the lines before it are written)",
    )
    lines.add_buffer(parser, 1000, "translating")
    flags.add_batch_tokens(parser, 4096, "source subwords translated")
    flags.add_processor(parser)
    flags.add_precision(parser)


def run(args: argparse.Namespace) -> int:
    """Translate; returns 0.

    Raises:
        ValueError: flags that don't fit, a bundle or a line that can't be used.
        OSError: a file can't be read or written.
    """
    from vaswani_plugin.inference.sources import TextTooLong  # importing torch takes a second
    from vaswani_plugin.interchange.translation import load_translator

    device = flags.processor(args)
    dtype = flags.chosen_dtype(args, device)
    engine = {"fairseq": "torch"}.get(args.engine, args.engine)
    translator = load_translator(
        args.model, device=device, dtype=dtype, threads=args.threads, engine=engine
    )
    inputs = args.inputs or ["-"]
    raw = lines.RawLines(inputs)
    options = {"beam": args.beam, "nbest": args.nbest, "length_penalty": args.lenpen}
    options |= {"batch_tokens": args.batch_tokens, "long": args.long}
    options |= {"align": args.format == "json", "buffer": lines.buffer_size(args, inputs)}
    with lines.opened(args.output) as write, lines.progress(inputs, args.output) as bar:
        try:
            for number, translation in enumerate(translator.stream(raw, **options), start=1):
                write(shown(number, translation, args))
                bar.update()
        except TextTooLong as error:
            raise ValueError(
                f"{raw.place(error.number)}: the line has {error.count} subwords, the model takes "
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
