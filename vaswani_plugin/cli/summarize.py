"""`vaswani summarize`: a summary for each article with a bundle of recipes/summarization.sh.

The model continues `article <sep>`. Every line gives one line; an empty article gives an empty
summary. Of an article that is too long only the beginning is read, as in training.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_plugin.cli import _flags as flags
from vaswani_plugin.cli import _lines as lines
from vaswani_plugin.decoding import PAPER_DECODING

if TYPE_CHECKING:
    from vaswani_plugin.inference.summarization import Summary

HELP = "summarize articles with a bundle (model, dictionary, subword codes)"
EXAMPLE = "vaswani summarize --model work/summarization/model < articles > summaries"
BUNDLE = "a bundle, as recipes/summarization.sh makes it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "inputs", nargs="*", metavar="FILE", help="an article a line, plain or .gz (default: -)"
    )
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help=BUNDLE)
    lines.add_output(parser)
    parser.add_argument(
        "--beam", type=flags.count, help="width (default: that of the bundle, else 4)"
    )
    flags.add_length_penalty(parser, PAPER_DECODING["lenpen"])
    parser.add_argument(
        "--max-length",
        type=flags.count,
        metavar="N",
        help="units of a summary (default: those of the training's longest)",
    )
    parser.add_argument(
        "--no-repeat-ngram-size",
        type=flags.count,
        default=0,
        metavar="N",
        help="write no N units twice in a summary",
    )
    lines.add_buffer(parser, 256, "summarizing")
    flags.add_batch_tokens(parser, 4096, "units of articles read")
    parser.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="json: an object a line with line, article_tokens, read_tokens, summary, score, "
        "tokens, log_probabilities (natural logarithms) and ended (whether the model ended it)",
    )
    flags.add_processor(parser)


def run(args: argparse.Namespace) -> int:
    """Summarize; returns 0.

    Raises:
        ValueError: flags that don't fit, a bundle or a line that can't be used.
        OSError: a file can't be read or written.
    """
    if not args.model.is_dir():
        raise ValueError(f"--model {args.model}: must be {BUNDLE}")
    from vaswani_plugin.inference.summarization import Summarizer
    from vaswani_plugin.interchange.language_model import load_language_model

    summarizer = Summarizer(load_language_model(args.model, device=flags.processor(args)))
    inputs = args.inputs or ["-"]
    summaries = summarizer.stream(
        lines.RawLines(inputs),
        buffer=lines.buffer_size(args, inputs),
        beam=args.beam,
        length_penalty=args.lenpen,
        max_length=args.max_length,
        no_repeat_ngram=args.no_repeat_ngram_size,
        batch_tokens=args.batch_tokens,
    )
    total = cut = 0
    with lines.opened(args.output) as write, lines.progress(inputs, args.output) as bar:
        for total, summary in enumerate(summaries, start=1):
            write([_as_json(total, summary) if args.format == "json" else summary.text])
            cut += summary.read_tokens < summary.article_tokens
            bar.update()
    if cut:
        print(
            f"vaswani summarize: {cut:,} of {total:,} articles are longer than the model reads; "
            f"of those the first {summarizer.article_tokens} units were read",
            file=sys.stderr,
        )
    return 0


def _as_json(number: int, summary: "Summary") -> str:
    entry = {"line": number, "article_tokens": summary.article_tokens}
    entry |= {"read_tokens": summary.read_tokens, "summary": summary.text, "score": summary.score}
    entry |= {"tokens": summary.tokens, "log_probabilities": summary.token_scores}
    return json.dumps(entry | {"ended": summary.ended})
