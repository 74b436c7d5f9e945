"""`vaswani summarize`: a summary for each article with a bundle of recipes/summarization.sh.

The model continues `article <sep>`. Every line gives one line: an empty article an empty summary,
and of an article that is too long the beginning is read, as in training.
"""

import argparse
from pathlib import Path

from vaswani_plugin.cli._flags import (
    add_batch_tokens,
    add_length_penalty,
    add_processor,
    count,
)
from vaswani_plugin.cli._lines import add_buffer, add_output
from vaswani_plugin.cli._start import start_fairseq
from vaswani_plugin.decoding import PAPER_DECODING

HELP = "summarize articles with a bundle (model, dictionary, subword codes)"
EXAMPLE = "vaswani summarize --model work/summarization/model < articles > summaries"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "inputs", nargs="*", metavar="FILE", help="an article a line, plain or .gz (default: -)"
    )
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        metavar="DIR",
        help="a bundle, as recipes/summarization.sh makes it",
    )
    add_output(parser)
    parser.add_argument("--beam", type=count, help="width (default: that of the bundle, else 4)")
    add_length_penalty(parser, PAPER_DECODING["lenpen"])
    parser.add_argument(
        "--max-length",
        type=count,
        metavar="N",
        help="units of a summary (default: those of the training's longest)",
    )
    parser.add_argument(
        "--no-repeat-ngram-size",
        type=count,
        default=0,
        metavar="N",
        help="write no N units twice in a summary",
    )
    add_buffer(parser, 256, "summarizing")
    add_batch_tokens(parser, 4096, "units of articles read")
    parser.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="json: an object a line with line, article_tokens, read_tokens, summary, score, "
        "tokens, log_probabilities (natural logarithms) and ended (whether the model ended it)",
    )
    add_processor(parser)


def run(args: argparse.Namespace) -> int:
    """Summarize; returns 0.

    Raises:
        ValueError: flags that don't fit, a bundle or a line that can't be used.
        OSError: a file can't be read or written.
    """
    start_fairseq()
    from vaswani_plugin.cli import _summarizing

    return _summarizing.run(args)
