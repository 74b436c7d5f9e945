"""`vaswani lm`: how well a language model predicts a text, in all units, beside baselines."""

import argparse
from pathlib import Path

from vaswani_plugin.cli._flags import add_processor, count
from vaswani_plugin.cli._lm_report import FIGURES
from vaswani_plugin.cli._start import start_fairseq

HELP = "perplexity of a language model by token, word, character and byte, beside baselines"
EXAMPLE = "vaswani lm --model work/lm/model --text test.txt --baselines --train-data train.txt"
RATE, DECAY = 0.01, 0.001


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: must be a number from 0 on")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "--model",
        type=Path,
        metavar="PATH",
        help="a bundle, as recipes/lm.sh makes it, or a checkpoint (with --data-bin)",
    )
    text = parser.add_argument_group("what to score (at least one; both: --text gives the counts)")
    text.add_argument("--text", type=Path, metavar="FILE", help="raw text, plain or .gz")
    text.add_argument("--data-bin", type=Path, metavar="DIR", help="text binarized as one language")
    text.add_argument("--split", default="test", help="of --data-bin (default: %(default)s)")
    text.add_argument(
        "--line-ends",
        choices=["score", "skip"],
        default="score",
        help="score: they are predicted and count as a word each, as published figures of wikitext "
        "have it (the table gives both); skip: leave them out of everything",
    )
    text.add_argument(
        "--tokens-per-sample",
        type=count,
        metavar="N",
        help="of a window, context included (default: what the model was trained with)",
    )
    text.add_argument(
        "--context-window",
        type=int,
        default=0,
        metavar="N",
        help="so many of them only give context to the rest, as in fairseq-eval-lm (default: 0)",
    )
    text.add_argument(
        "--batch-tokens", type=count, default=4096, metavar="N", help="(default: %(default)s)"
    )
    _add_comparisons(parser)
    parser.add_argument(
        "--line-scores", type=Path, metavar="FILE", help="write each line's bits and perplexity"
    )
    add_processor(parser)
    parser.add_argument("--format", choices=["text", "json"], default="text")


def _add_comparisons(parser: argparse.ArgumentParser) -> None:
    learning = parser.add_argument_group("dynamic evaluation")
    learning.add_argument(
        "--dynamic",
        action="store_true",
        help="also let the model learn from each window after it is scored (Krause et al. 2018)",
    )
    learning.add_argument(
        "--dynamic-rate",
        type=_not_negative,
        metavar="X",
        help=f"step of gradient descent on the mean loss of a window (default: {RATE})",
    )
    learning.add_argument(
        "--dynamic-decay",
        type=_not_negative,
        metavar="X",
        help="part of the way back to the trained weights, after each window "
        f"(0 to 1, default: {DECAY})",
    )
    others = parser.add_argument_group("baselines")
    others.add_argument(
        "--baselines",
        action="store_true",
        help="uniform, unigram, and trigram (interpolated modified Kneser-Ney)",
    )
    others.add_argument(
        "--train-data",
        type=Path,
        nargs="+",
        default=[],
        metavar="PATH",
        help="what they count: a text gives baselines of words, a folder (its split train) of the "
        "model's tokens (default: --data-bin)",
    )
    others.add_argument(
        "--figure",
        nargs=2,
        metavar=("VALUE", "UNIT"),
        help=f"a published figure to convert; UNIT is one of {', '.join(FIGURES)}",
    )
    others.add_argument(
        "--counts",
        type=count,
        nargs=2,
        metavar=("WORDS", "CHARACTERS"),
        help="of the figure's text, instead of --text",
    )


def check_flags(args: argparse.Namespace) -> None:
    """Refuse flags that don't fit each other.

    Raises:
        ValueError: names the flag and what it goes with.
    """
    if not (args.model or args.baselines or args.figure):
        raise ValueError("nothing to do: give --model PATH, --baselines or --figure VALUE UNIT")
    if args.counts and not args.figure:
        raise ValueError("--counts goes with --figure VALUE UNIT")
    if not (args.text or args.data_bin or args.counts):
        raise ValueError("no text: give --text FILE or --data-bin DIR")
    if args.counts and (args.model or args.baselines):
        raise ValueError("--counts goes with --figure alone; models need --text or --data-bin")
    for flag in ("dynamic", "line_scores"):
        if getattr(args, flag) and not args.model:
            raise ValueError(f"--{flag.replace('_', '-')} needs --model PATH")
    if not args.dynamic and (args.dynamic_rate is not None or args.dynamic_decay is not None):
        raise ValueError("--dynamic-rate and --dynamic-decay need --dynamic")
    if args.dynamic_decay is not None and args.dynamic_decay > 1:
        raise ValueError(f"--dynamic-decay {args.dynamic_decay:g}: more than all the way back")
    if args.baselines and not (args.train_data or args.data_bin):
        raise ValueError("--baselines needs --train-data PATH: what to count")
    if args.train_data and not args.baselines:
        raise ValueError("--train-data goes with --baselines")


def run(args: argparse.Namespace) -> int:
    """Score and print; returns 0.

    Raises:
        ValueError: flags, a model or a text that can't be used.
        OSError: a file can't be read or written.
    """
    check_flags(args)
    start_fairseq()
    from vaswani_plugin.cli import _lm_evaluation

    return _lm_evaluation.run(args)
