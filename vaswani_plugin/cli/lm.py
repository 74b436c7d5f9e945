"""`vaswani lm`: how well a language model predicts a text, in all units, beside baselines."""

import argparse
import json
from pathlib import Path

from vaswani_plugin.cli import _flags as flags
from vaswani_plugin.cli._types import non_negative_float, non_negative_int, positive_int
from vaswani_plugin.metrics.perplexity import FIGURES, as_text, finite

HELP = "perplexity of a language model per token, word, character and byte, and of n-gram baselines"
EXAMPLE = "vaswani lm --model work/lm/model --text test.txt --baselines --train-data train.txt"
SPLIT, RATE, DECAY, BATCH = "test", 0.01, 0.001, 4096
OF_MODEL = "dynamic carry_state tokens_per_sample context_window batch_tokens threads"
BATCH_TOKENS = f"most tokens in a batch, padding included (default: {BATCH})"
WINDOW = "tokens of a window, context included (default: as in the model's training)"
CONTEXT = "the first N tokens of a window are context only, as in fairseq-eval-lm (default: 0)"
DRIFT = f"after each window, move the weights back by this fraction, 0 to 1 (default: {DECAY})"
TRAIN_DATA = "text files whose words the baselines count"
VALID_DATA = "validation text for the baselines"
NOTHING = "nothing to do: give --model PATH, --baselines or --figure VALUE UNIT"
CARRY = "vaswani_lm_lstm keeps its state from window to window, instead of --context-window"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add = parser.add_argument
    add("--model", type=Path, metavar="PATH", help="a bundle, or a checkpoint with --data-bin")
    text = parser.add_argument_group("the text: --text, --data-bin, or both").add_argument
    text("--text", type=Path, metavar="FILE", help="raw text, plain or .gz")
    text("--data-bin", type=Path, metavar="DIR", help="binarized text of one language")
    text("--split", help=f"split of --data-bin (default: {SPLIT})")
    text("--tokens-per-sample", type=positive_int, metavar="N", help=WINDOW)
    text("--context-window", type=non_negative_int, metavar="N", help=CONTEXT)
    text("--carry-state", action="store_true", help=CARRY)
    text("--batch-tokens", type=positive_int, metavar="N", help=BATCH_TOKENS)
    dynamic = parser.add_argument_group("dynamic evaluation (Krause et al. 2018)").add_argument
    dynamic("--dynamic", action="store_true", help="train on each window after scoring it")
    dynamic("--dynamic-rate", type=non_negative_float, help=f"learning rate (default: {RATE})")
    dynamic("--dynamic-decay", type=non_negative_float, metavar="X", help=DRIFT)
    compared = parser.add_argument_group("baselines and published figures").add_argument
    compared("--baselines", action="store_true", help="also score uniform and n-gram models")
    compared("--train-data", type=Path, nargs="+", default=[], metavar="PATH", help=TRAIN_DATA)
    compared("--valid-data", type=Path, metavar="FILE", help=VALID_DATA)
    figure = f"convert a published figure to the other units; UNIT is one of {', '.join(FIGURES)}"
    compared("--figure", nargs=2, metavar=("VALUE", "UNIT"), help=figure)
    sizes = {"metavar": ("WORDS", "CHARACTERS"), "help": "sizes of the figure's text, if no --text"}
    compared("--counts", type=positive_int, nargs=2, **sizes)
    flags.add_device(parser)
    flags.add_format(parser)


def check_flags(args: argparse.Namespace) -> None:
    """Refuse flags that don't fit each other.

    Raises:
        ValueError: names the flag and what it goes with.
    """
    text = args.text or args.data_bin or args.counts
    is_rated = (args.dynamic_rate, args.dynamic_decay) != (None, None)
    scored, counted = args.model or args.baselines, args.train_data or args.valid_data
    of_model = [name for name in OF_MODEL.split() if getattr(args, name) not in (None, False)]
    refusals = [
        (not (scored or args.figure), NOTHING),
        (args.counts and not args.figure, "--counts goes with --figure VALUE UNIT"),
        (not text, "no text: give --text FILE or --data-bin DIR"),
        (args.counts and (scored or text != args.counts), "--counts goes with --figure alone"),
        (args.split is not None and not args.data_bin, "--split needs --data-bin DIR"),
        *((not args.model, f"--{name.replace('_', '-')} needs --model PATH") for name in of_model),
        (is_rated and not args.dynamic, "--dynamic-rate and --dynamic-decay need --dynamic"),
        (
            args.baselines and not args.train_data,
            "--baselines needs --train-data PATH, which it counts",
        ),
        (counted and not args.baselines, "--train-data and --valid-data go with --baselines"),
        (args.carry_state and args.context_window, "--carry-state: leave --context-window out"),
    ]
    if errors := [message for is_wrong, message in refusals if is_wrong]:
        raise ValueError(errors[0])


def run(args: argparse.Namespace) -> int:
    """Score and print; returns 0.

    Raises:
        ValueError: flags, a model or a text that can't be used.
        OSError: a file can't be read or written.
    """
    check_flags(args)
    from vaswani_plugin.figures.perplexity import DynamicEvaluation, Scoring, make_report
    from vaswani_plugin.inference.language_model import LanguageModel
    from vaswani_plugin.metrics.perplexity import TextCounts
    from vaswani_plugin.metrics.scored_text import read_scored_text

    model = text = None
    if args.model:
        place = {"data": args.data_bin, "device": flags.chosen_device(args)}
        model = LanguageModel.from_pretrained(args.model, **place)
    if not args.counts:
        known = model.text_knowledge() if model else {}
        text = read_scored_text(args.text, args.data_bin, args.split or SPLIT, **known)
    rate = RATE if args.dynamic_rate is None else args.dynamic_rate
    decay = DECAY if args.dynamic_decay is None else args.dynamic_decay
    dynamic = DynamicEvaluation(rate, decay) if args.dynamic else None
    cut = args.tokens_per_sample, args.context_window or 0, args.batch_tokens or BATCH
    report = make_report(
        text,
        model and Scoring(model, *cut, dynamic, args.carry_state),
        args.train_data,
        args.valid_data,
        args.figure,
        args.counts and TextCounts(0, *args.counts, 0),
    )
    print(json.dumps(finite(report)) if args.format == "json" else as_text(report))
    return 0
