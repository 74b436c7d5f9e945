"""The report of `vaswani lm`: a language model's scores of a text, static and dynamic.

The baselines are in `metrics/ngram.py`, the layout in `metrics/perplexity.py`.

Axes: N tokens of the text.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.language_model import LanguageModel
from vaswani_plugin.inference.stream_scoring import windows
from vaswani_plugin.metrics.ngram import baselines
from vaswani_plugin.metrics.perplexity import TextCounts, perplexity, result
from vaswani_plugin.metrics.perplexity import figure as converted_figure
from vaswani_plugin.metrics.scored_text import ScoredText, Tokens
from vaswani_plugin.text.outputs import write_atomically

HEADINGS = ("bits", "perplexity")


@dataclass(frozen=True)
class DynamicEvaluation:
    """Settings of learning from the text that has been scored; see `StreamScorer.dynamic`."""

    rate: float
    decay: float

    def __post_init__(self) -> None:
        """Check the values; raises UserError."""
        if self.decay > 1:
            raise UserError(f"--dynamic-decay {self.decay:g}: more than all the way back")


@dataclass(frozen=True)
class Scoring:
    """How to score a text with a model.

    Args:
        model: nothing else may use it during dynamic evaluation.
        tokens_per_sample: tokens of a window, context included; None: as in training.
        context_window: number of tokens of a window that are only context for the others.
        batch_tokens: maximum tokens of a batch, padding and context included.
        dynamic: also score while the model learns from each window after scoring it.
        line_scores: file for the score of each line.
        carry_state: go on with the state of a recurrent model from window to window.
    """

    model: LanguageModel
    tokens_per_sample: int | None = None
    context_window: int = 0
    batch_tokens: int = 4096
    dynamic: DynamicEvaluation | None = None
    line_scores: Path | None = None
    carry_state: bool = False


def make_report(
    scored: ScoredText | None,
    line_ends: str,
    scoring: Scoring | None = None,
    training: Sequence[Path] = (),
    validation: Path | None = None,
    figure: tuple[str, str] | None = None,
    counts: TextCounts | None = None,
) -> dict[str, Any]:
    """The report with all requested rows; `metrics.perplexity.as_text` formats it.

    Args:
        scored: the text; None: only its `counts` are known.
        line_ends: "score" or "skip", as in the text.
        scoring: how to score with a model; None: no model.
        training: training data of the n-gram baselines.
        validation: text on which baselines of words are scored, too.
        figure: a published figure, a number and its unit.
        counts: of the figure's text, if there is no text.

    Raises:
        ValueError: data, windows or a learning rate that can't be used.
        OSError: a file can't be read or written.
    """
    divisors = counts
    report = {"text": None, "windows": None, "line_ends": line_ends, "dynamic": None}
    report |= {"results": [], "dynamic_gain": None, "warnings": []}
    if scored is not None:
        counts, divisors = scored.counts, scored.divisors(scored.counts)
        report["results"] += baselines(scored, training, validation)
        if scoring is not None:
            _add_model(report, scored, scoring)
        report["warnings"] += scored.warnings
    if figure is not None:
        report["results"].append(converted_figure(*figure, divisors))
    report["text"] = counts and asdict(counts)
    return report


def _add_model(report: dict[str, Any], scored: ScoredText, scoring: Scoring) -> None:
    """Add the model's rows, and write the score of each line.

    If standard error is a terminal, it shows a progress bar.
    """
    tokens, model, dynamic = scored.tokens, scoring.model, scoring.dynamic
    numbers, size = tokens.numbers, model.window_size(scoring.tokens_per_sample)
    cut = windows(len(numbers), size, scoring.context_window)
    report["windows"] = {"tokens_per_sample": size, "context_window": scoring.context_window}
    scorer = model.stream_scorer(numbers, scoring.carry_state)
    total, unit = len(numbers), " tokens"
    with tqdm(total=total, desc="static", unit=unit, disable=None) as bar:
        found = {"model": scorer.static(cut, scoring.batch_tokens, bar.update)}
    if dynamic is not None:
        report["dynamic"] = asdict(dynamic)
        with tqdm(total=total, desc="dynamic", unit=unit, disable=None) as bar:
            found["model, dynamic"] = scorer.dynamic(cut, dynamic.rate, dynamic.decay, bar.update)
    is_scored, divisors = scored.mask(tokens), scored.divisors(scored.counts)
    rows = [
        result(name, scored.coding, scores[is_scored], divisors, unknown=tokens.unknown)
        for name, scores in found.items()
    ]
    report["results"] += rows
    if dynamic is not None:
        report["dynamic_gain"] = gain(*rows)
    if scoring.line_scores is not None:
        write_line_scores(scoring.line_scores, tokens, is_scored, list(found.values()))


def gain(static: dict[str, Any], dynamic: dict[str, Any]) -> dict[str, float | None]:
    """The reduction of the perplexities by dynamic evaluation, from the two rows."""
    keys = ("perplexity", "perplexity_per_word")
    return {k: None if static[k] is None else static[k] - dynamic[k] for k in keys}


def write_line_scores(
    path: Path, tokens: Tokens, is_scored: NDArray[np.bool_], scores: list[NDArray[np.float64]]
) -> None:
    """Write a line's number, its scored tokens, and its bits and perplexity (static, dynamic).

    Args:
        path: of the file.
        tokens: of the text.
        is_scored: mask of the tokens that are scored, (N,).
        scores: natural logarithms of the probabilities, (N,) each.

    Raises:
        OSError: the file can't be written.
    """
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
