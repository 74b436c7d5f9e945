"""`vaswani translate`: from raw text to raw text with a bundle, line by line.

Every line gives one line, whatever it holds: an empty one stays empty, a line break can't come out.
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
from vaswani_plugin.decoding import PAPER_DECODING

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
    add_output(parser)
    parser.add_argument("--beam", type=count, help="width (default: that of the bundle, else 4)")
    parser.add_argument(
        "--nbest",
        type=count,
        default=1,
        metavar="N",
        help="give the N best of each line; as text, each as LINE <tab> SCORE <tab> TEXT",
    )
    add_length_penalty(parser, PAPER_DECODING["lenpen"])
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
    add_buffer(parser, 1000, "translating")
    add_batch_tokens(parser, 4096, "source subwords translated")
    add_processor(parser)
    precision = parser.add_mutually_exclusive_group()
    precision.add_argument("--fp16", action="store_true", help="half precision (GPU only)")
    precision.add_argument("--bf16", action="store_true", help="bfloat16 (GPU only)")


def run(args: argparse.Namespace) -> int:
    """Translate; returns 0.

    Raises:
        ValueError: flags that don't fit, a bundle or a line that can't be used.
        OSError: a file can't be read or written.
    """
    from vaswani_plugin.cli import _translating  # torch takes a second

    return _translating.run(args)
