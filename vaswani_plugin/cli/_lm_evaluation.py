"""What `vaswani lm` does once its flags are read: the scores of a model, beside baselines."""

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
from vaswani_plugin.cli._flags import processor
from vaswani_plugin.cli._lm_baselines import baselines
from vaswani_plugin.cli._lm_model import LanguageModel, load_model
from vaswani_plugin.cli._lm_report import result
from vaswani_plugin.cli._lm_scoring import Advance, Scorer, windows
from vaswani_plugin.cli._lm_text import Subject, Tokens, find_subject
from vaswani_plugin.cli.lm import DECAY, RATE
from vaswani_plugin.metrics.perplexity import TextCounts, perplexity
from vaswani_plugin.text.corpus_io import write_atomically

HEADINGS = ("bits", "perplexity")


def run(args: argparse.Namespace) -> int:
    """Score and print; returns 0.

    Raises:
        ValueError: flags, a model or a text that can't be used.
        OSError: a file can't be read or written.
    """
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
