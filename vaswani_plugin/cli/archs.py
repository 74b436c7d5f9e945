"""`vaswani archs`: every named architecture, what it changes and its parameter count."""

import argparse

from vaswani_plugin.architectures import PAPER_VOCABULARY
from vaswani_plugin.cli._start import start_fairseq

HELP = "list the architectures with their parameter counts"
EXAMPLE = "vaswani archs --vocab 40960 --format json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "--vocab",
        type=int,
        default=PAPER_VOCABULARY,
        metavar="ROWS",
        help="rows of an embedding matrix, fairseq's four special tokens included "
        "(default: %(default)s, the authors' code)",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(args: argparse.Namespace) -> int:
    """Print the table.

    Raises:
        ValueError: when --vocab is too small for the special tokens and one word.
    """
    start_fairseq()
    from vaswani_plugin.cli import _arch_table

    return _arch_table.run(args)
