"""`vaswani lm`: how well a language model predicts a text, in all units, beside baselines."""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from vaswani_plugin.cli import _lm_report as reporting
from vaswani_plugin.cli._flags import add_processor, count, processor
from vaswani_plugin.cli._lm_baselines import baselines
from vaswani_plugin.cli._lm_model import LanguageModel, load_model
from vaswani_plugin.cli._lm_report import result
from vaswani_plugin.cli._lm_scoring import Advance, Scorer, windows
from vaswani_plugin.cli._lm_text import Subject, Tokens, find_subject
from vaswani_plugin.metrics.perplexity import TextCounts, perplexity
from vaswani_plugin.text.corpus_io import write_atomically

HELP = "perplexity of a language model by token, word, character and byte, beside baselines"
EXAMPLE = "vaswani lm --model work/lm/model --text test.txt --baselines --train-data train.txt"
RATE, DECAY = 0.01, 0.001
HEADINGS = ("bits", "perplexity")


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
        help=f"a published figure to convert; UNIT is one of {', '.join(reporting.FIGURES)}",
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
    report = {"text": None, "windows": None, "line_ends": args.line_ends, "dynamic": None}
    report |= {"results": [], "dynamic_gain": None, "warnings": []}
    if args.counts:
        words, characters = args.counts
        counts = divisors = TextCounts(0, words, characters, 0)
    else:
        device = processor(args)
        model = args.model and load_model(args.model, args.data_bin, device)
        if model and model.loss_after:
            raise ValueError(
                f"{args.model} learned only what follows {model.loss_after} in a line: let "
                "fairseq-eval-lm score it"
            )
        skips_ends = args.line_ends == "skip"
        subject = find_subject(model, args.data_bin, args.split, args.text, skips_ends)
        counts, divisors = subject.counts, subject.divisors(subject.counts)
        if args.baselines:
            report["results"] += baselines(subject, args.train_data or [args.data_bin])
        if model:
            score_model(args, model, subject, report)
        report["warnings"] += subject.warnings
    if args.figure:
        report["results"].append(reporting.figure(*args.figure, divisors))
    report["text"] = counts and asdict(counts)
    print(
        json.dumps(reporting.finite(report)) if args.format == "json" else reporting.as_text(report)
    )
    return 0


def score_model(
    args: argparse.Namespace, model: LanguageModel, subject: Subject, report: dict[str, Any]
) -> None:
    """Add the model's rows to the report, and write --line-scores.

    Raises:
        ValueError: windows or a learning rate that don't fit the model.
        OSError: --line-scores can't be written.
    """
    tokens, dictionary = subject.tokens, model.dictionary
    size = args.tokens_per_sample or min(model.tokens_per_sample, model.longest)
    if size > model.longest:
        raise ValueError(f"--tokens-per-sample {size}: the model has {model.longest} positions")
    cut = windows(len(tokens.numbers), size, args.context_window)
    report["windows"] = {"tokens_per_sample": size, "context_window": args.context_window}
    scorer = Scorer(model.model, tokens.numbers, dictionary.pad(), dictionary.eos())
    with progress(len(tokens.numbers), "static") as advance:
        found = {"model": scorer.static(cut, args.batch_tokens, advance)}
    if args.dynamic:
        rate = RATE if args.dynamic_rate is None else args.dynamic_rate
        decay = DECAY if args.dynamic_decay is None else args.dynamic_decay
        report["dynamic"] = {"rate": rate, "decay": decay}
        with progress(len(tokens.numbers), "dynamic") as advance:
            found["model, dynamic"] = scorer.dynamic(cut, rate, decay, advance)
    is_scored, divisors = subject.scored(tokens), subject.divisors(subject.counts)
    rows = [
        result(name, subject.coding, scores[is_scored], divisors, unknown=tokens.unknown)
        for name, scores in found.items()
    ]
    report["results"] += rows
    if args.dynamic:
        report["dynamic_gain"] = gain(*rows)
    if args.line_scores:
        write_line_scores(args.line_scores, tokens, is_scored, list(found.values()))


def gain(static: dict[str, Any], dynamic: dict[str, Any]) -> dict[str, float | None]:
    """By how much dynamic evaluation lowers the perplexities."""
    keys = ("perplexity", "perplexity_per_word")
    return {k: None if static[k] is None else static[k] - dynamic[k] for k in keys}


def write_line_scores(
    path: Path, tokens: Tokens, is_scored: NDArray[np.bool_], scores: list[NDArray[np.float64]]
) -> None:
    """Write a line's number, its scored tokens, and its bits and perplexity (static, dynamic)."""
    ends = np.cumsum(tokens.sizes)

    def by_line(values: NDArray) -> NDArray:
        return np.diff(np.concatenate([[0], np.cumsum(values)])[ends], prepend=0)

    counts = by_line(is_scored.astype(np.int64))
    bits = [by_line(np.where(is_scored, s, 0.0)) / -math.log(2) for s in scores]
    names = [f"{kind}{key}" for kind in ("", "dynamic_")[: len(bits)] for key in HEADINGS]
    with write_atomically(path) as write:
        write("\t".join(["line", "tokens", *names]))
        for number, (count, *of_line) in enumerate(zip(counts, *bits, strict=True), start=1):
            cells = [
                f"{value:.6f}" for b in of_line for value in (b, perplexity(b / max(1, count)))
            ]
            write("\t".join([str(number), str(count), *cells]))


@contextmanager
def progress(total: int, label: str) -> Iterator[Advance]:
    """Gives a function that takes the number of tokens done; a bar where somebody watches it."""
    with tqdm(total=total, desc=label, unit=" tokens", disable=not sys.stderr.isatty()) as bar:
        yield bar.update
