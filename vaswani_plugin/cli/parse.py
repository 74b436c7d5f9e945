"""`vaswani parse`: a tree for each sentence with a bundle of recipes/parsing.sh.

A sentence is a line of words between blanks, as treebanks divide them ("do n't", a comma apart).
Every line gives a line: an empty sentence an empty one, and so does, without the constraint, a
sequence that is no tree.
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
from vaswani_plugin.decoding import PARSER_DECODING

HELP = "parse tokenized sentences into constituency trees with a bundle"
EXAMPLE = "vaswani parse --model work/parsing/model --pretty < sentences"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="FILE",
        help="tokenized sentences, one a line, plain or .gz (default: -)",
    )
    parser.add_argument(
        "--model",
        type=Path,
        required=True,
        metavar="DIR",
        help="a bundle, as recipes/parsing.sh makes it",
    )
    add_output(parser)
    parser.add_argument("--pretty", action="store_true", help="trees over several lines, indented")
    parser.add_argument(
        "--draw",
        type=Path,
        metavar="FILE",
        help="also draw the trees (.svg, .png, .pdf); of line 2 into FILE-2, and so on",
    )
    parser.add_argument(
        "--unconstrained",
        action="store_true",
        help="let the model write what is no tree, and count such sentences",
    )
    parser.add_argument(
        "--beam",
        type=count,
        help=f"width (default: that of the bundle, else {PARSER_DECODING['beam']})",
    )
    add_length_penalty(parser, PARSER_DECODING["lenpen"])
    parser.add_argument(
        "--format",
        choices=["text", "json"],
        default="text",
        help="json: an object a line with line, tree (null for none), symbols and score",
    )
    add_buffer(parser, 256, "parsing")
    add_batch_tokens(parser, 2048, "units read")
    add_processor(parser)


def run(args: argparse.Namespace) -> int:
    """Parse; returns 0.

    Raises:
        ValueError: flags that don't fit, a bundle or a line that can't be used.
        OSError: a file can't be read or written.
    """
    if args.pretty and args.format == "json":
        raise ValueError("--pretty and --format json exclude each other; drop one")
    start_fairseq()
    from vaswani_plugin.cli import _parsing

    return _parsing.run(args)
