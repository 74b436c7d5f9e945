"""`vaswani rescore`: another system's n-best lists, reordered by what our models think of them.

Each --system adds log P of the hypotheses to the list's own score; weights are tuned on a
development set. The table is that of Sutskever et al. (2014), section 3.6: the baseline, each
system on top of it, the oracle.
"""

import argparse
from pathlib import Path

from vaswani_plugin.cli._start import start_fairseq

HELP = "rescore n-best lists with models or ensembles, and tune the weights for BLEU"
EXAMPLE = (
    "vaswani rescore --data DATA_BIN --nbest test.nbest --source test.en --reference test.de \\\n"
    "    --dev-nbest valid.nbest --dev-source valid.en --dev-reference valid.de \\\n"
    "    --system lstm=lstm.pt --system five=a.pt:b.pt:c.pt:d.pt:e.pt --output best.de"
)
SCORE, WORDS = "score", "words"
"""Names of the features that every list has: the system's own score, and the number of words."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "--system",
        action="append",
        required=True,
        metavar="NAME=FILE[:FILE...]",
        help="a checkpoint or an ensemble that scores the hypotheses; may be repeated, a row of "
        "the table each; the last one is applied in --output and --output-nbest",
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="the models' binarized data"
    )
    parser.add_argument(
        "--bpe-codes", type=Path, metavar="FILE", help="split sources and hypotheses with these"
    )
    for prefix, of_what in (("", "to reorder"), ("dev-", "to tune the weights on")):
        parser.add_argument(
            f"--{prefix}nbest",
            type=Path,
            required=not prefix,
            metavar="FILE",
            help=f"lists {of_what}: Moses' format (ids from 0), or what fairseq-generate printed",
        )
        parser.add_argument(
            f"--{prefix}source",
            type=Path,
            metavar="FILE",
            help="a line a sentence (default: the list's S lines)",
        )
        parser.add_argument(
            f"--{prefix}reference",
            type=Path,
            nargs="+",
            metavar="FILE",
            help="tokenized, a line a sentence (default: the list's T lines)",
        )
    parser.add_argument(
        "--weights",
        nargs="+",
        metavar="NAME=NUMBER",
        help=f"fixed, by the names of the systems, {SCORE} (the list's own) and {WORDS} (their "
        f"number); without them and without --dev-nbest: {SCORE} and the system 1 each",
    )
    parser.add_argument(
        "--restarts", type=int, default=10, metavar="N", help="random starts (default: 10)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the random starts (default: 1)")
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=4000,
        metavar="N",
        help="target tokens scored at once, padding included (default: %(default)s)",
    )
    parser.add_argument("--cpu", action="store_true", help="leave a GPU alone")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the best of each list")
    parser.add_argument(
        "--output-nbest", type=Path, metavar="FILE", help="all of them, reordered, Moses' format"
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(args: argparse.Namespace) -> int:
    """Rescore; returns 0.

    Raises:
        ValueError: flags that don't fit, a list or a checkpoint that can't be used.
        OSError: a file can't be read or written.
    """
    start_fairseq()
    from vaswani_plugin.cli import _rescoring

    return _rescoring.run(args)
