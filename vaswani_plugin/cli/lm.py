"""`vaswani lm`: how well a language model predicts a text, in all units, beside baselines."""

import argparse
import json
from pathlib import Path

from vaswani_plugin.cli._flags import add_processor, count, not_negative, processor
from vaswani_plugin.metrics.perplexity_report import FIGURES, as_text, finite

HELP = "perplexity of a language model by token, word, character and byte, beside baselines"
EXAMPLE = "vaswani lm --model work/lm/model --text test.txt --baselines --train-data train.txt"
RATE, DECAY = 0.01, 0.001
LINE_ENDS = """score: they are predicted and count as a word each, as published figures of wikitext
have it (the table gives both); skip: leave them out of everything"""
TRAIN_DATA = """what they count: a text gives baselines of words, a folder (its split train) of the
model's tokens (default: --data-bin)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    bundle = "a bundle, as recipes/lm.sh makes it, or a checkpoint (with --data-bin)"
    parser.add_argument("--model", type=Path, metavar="PATH", help=bundle)
    text = parser.add_argument_group("what to score (at least one; both: --text gives the counts)")
    add = text.add_argument
    add("--text", type=Path, metavar="FILE", help="raw text, plain or .gz")
    add("--data-bin", type=Path, metavar="DIR", help="text binarized as one language")
    add("--split", default="test", help="of --data-bin (default: %(default)s)")
    add("--line-ends", choices=["score", "skip"], default="score", help=LINE_ENDS)
    window = "of a window, context included (default: what the model was trained with)"
    add("--tokens-per-sample", type=count, metavar="N", help=window)
    context = "so many of them only give context to the rest, as in fairseq-eval-lm (default: 0)"
    add("--context-window", type=int, default=0, metavar="N", help=context)
    add("--batch-tokens", type=count, default=4096, metavar="N", help="(default: %(default)s)")
    add = parser.add_argument_group("dynamic evaluation").add_argument
    dynamic = "also let the model learn from each window after it is scored (Krause et al. 2018)"
    add("--dynamic", action="store_true", help=dynamic)
    rate = f"step of gradient descent on the mean loss of a window (default: {RATE})"
    add("--dynamic-rate", type=not_negative, metavar="X", help=rate)
    decay = f"part of the way back to the trained weights, after each window (0 to 1, {DECAY})"
    add("--dynamic-decay", type=not_negative, metavar="X", help=decay)
    add = parser.add_argument_group("baselines").add_argument
    add("--baselines", action="store_true", help="uniform, unigram, trigram (modified Kneser-Ney)")
    add("--train-data", type=Path, nargs="+", default=[], metavar="PATH", help=TRAIN_DATA)
    figure = f"a published figure to convert; UNIT is one of {', '.join(FIGURES)}"
    add("--figure", nargs=2, metavar=("VALUE", "UNIT"), help=figure)
    counts = {"metavar": ("WORDS", "CHARACTERS"), "help": "of the figure's text, for --text"}
    add("--counts", type=count, nargs=2, **counts)
    add = parser.add_argument
    add("--line-scores", type=Path, metavar="FILE", help="write each line's bits and perplexity")
    add_processor(parser)
    add("--format", choices=["text", "json"], default="text")


def check_flags(args: argparse.Namespace) -> None:
    """Refuse flags that don't fit each other.

    Raises:
        ValueError: names the flag and what it goes with.
    """
    some_text = args.text or args.data_bin
    rates = args.dynamic_rate is not None or args.dynamic_decay is not None
    refusals = [
        (
            not (args.model or args.baselines or args.figure),
            "nothing to do: give --model PATH, --baselines or --figure VALUE UNIT",
        ),
        (args.counts and not args.figure, "--counts goes with --figure VALUE UNIT"),
        (not (some_text or args.counts), "no text: give --text FILE or --data-bin DIR"),
        (
            args.counts and (args.model or args.baselines),
            "--counts goes with --figure alone; models need --text or --data-bin",
        ),
        (args.dynamic and not args.model, "--dynamic needs --model PATH"),
        (args.line_scores and not args.model, "--line-scores needs --model PATH"),
        (rates and not args.dynamic, "--dynamic-rate and --dynamic-decay need --dynamic"),
        (
            args.baselines and not (args.train_data or args.data_bin),
            "--baselines needs --train-data PATH: what to count",
        ),
        (args.train_data and not args.baselines, "--train-data goes with --baselines"),
    ]
    for is_wrong, message in refusals:
        if is_wrong:
            raise ValueError(message)


def run(args: argparse.Namespace) -> int:
    """Score and print; returns 0.

    Raises:
        ValueError: flags, a model or a text that can't be used.
        OSError: a file can't be read or written.
    """
    check_flags(args)
    from vaswani_plugin.analysis.perplexity import DynamicEvaluation, Scoring, make_report
    from vaswani_plugin.interchange.language_model import load_language_model
    from vaswani_plugin.metrics.perplexity import TextCounts
    from vaswani_plugin.metrics.scored_text import read_subject

    model = subject = None
    if args.model:
        model = load_language_model(args.model, data=args.data_bin, device=processor(args))
    if not args.counts:
        known = model.text_knowledge() if model else {}
        known["skips_ends"] = args.line_ends == "skip"
        subject = read_subject(args.text, args.data_bin, args.split, **known)
    rate = RATE if args.dynamic_rate is None else args.dynamic_rate
    decay = DECAY if args.dynamic_decay is None else args.dynamic_decay
    dynamic = DynamicEvaluation(rate, decay) if args.dynamic else None
    cut = args.tokens_per_sample, args.context_window, args.batch_tokens
    report = make_report(
        subject,
        args.line_ends,
        model and Scoring(model, *cut, dynamic, args.line_scores),
        (args.train_data or [args.data_bin]) if args.baselines else [],
        args.figure,
        args.counts and TextCounts(0, *args.counts, 0),
    )
    print(json.dumps(finite(report)) if args.format == "json" else as_text(report))
    return 0
