"""`vaswani summarize`: a summary for each article with a bundle of recipes/summarization.sh.

The model continues `article <sep>`. Every line gives one line; an empty article gives an empty
summary. Of an article that is too long only the beginning is read, as in training.
"""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from vaswani_plugin.cli import _flags as flags
from vaswani_plugin.cli._types import non_negative_int, positive_int
from vaswani_plugin.decoding import PAPER_DECODING
from vaswani_plugin.text.lines import LocatedLines
from vaswani_plugin.text.outputs import check_outputs, line_progress, open_output

if TYPE_CHECKING:
    from vaswani_plugin.inference.summarization import Summary

HELP = "summarize articles with a bundle, one summary per article"
EXAMPLE = "vaswani summarize --model work/summarization/model < articles > summaries"
BUNDLE = "the bundle: the folder model/ of recipes/summarization.sh"
FORMAT = """json: one object per line with line, article_tokens, read_tokens, summary, score,
tokens, log_probabilities (natural logarithms) and ended (false: cut at --max-length)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    flags.add_inputs(parser, "an article")
    flags.add_model(parser, BUNDLE)
    flags.add_output(parser)
    flags.add_beam(parser, PAPER_DECODING["beam"])
    flags.add_length_penalty(parser, PAPER_DECODING["lenpen"])
    longest = "most subwords of a summary (default: the most in training)"
    add("--max-length", type=positive_int, metavar="N", help=longest)
    ngram = "never repeat N successive subwords in a summary (default: 0, no limit)"
    add("--no-repeat-ngram-size", type=non_negative_int, default=0, metavar="N", help=ngram)
    flags.add_buffer(parser, 256)
    flags.add_batch_tokens(parser, 4096, "subwords of articles")
    flags.add_format(parser, FORMAT)
    flags.add_device(parser)


def run(args: argparse.Namespace) -> int:
    """Summarize; returns 0.

    Raises:
        ValueError: flags that don't fit, a bundle or a line that can't be used.
        OSError: a file can't be read or written.
    """
    if not args.model.is_dir():
        raise ValueError(f"--model {args.model}: must be a folder, {BUNDLE}")
    inputs = args.inputs or ["-"]
    check_outputs("--output", [args.output], inputs)
    from vaswani_plugin.inference.language_model import LanguageModel
    from vaswani_plugin.inference.summarization import Summarizer

    summarizer = Summarizer(
        LanguageModel.from_pretrained(args.model, device=flags.chosen_device(args))
    )
    summaries = summarizer.stream(
        LocatedLines(inputs),
        buffer=flags.buffer_size(args, inputs),
        beam=args.beam,
        length_penalty=args.lenpen,
        max_length=args.max_length,
        no_repeat_ngram=args.no_repeat_ngram_size,
        batch_tokens=args.batch_tokens,
    )
    total = cut = 0
    with open_output(args.output) as write, line_progress(inputs, args.output) as bar:
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
