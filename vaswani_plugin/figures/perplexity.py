"""The report of `vaswani lm`: a language model's scores of a text, static and dynamic.

The baselines are in `metrics/ngram.py`, the layout in `metrics/perplexity.py`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.language_model import LanguageModel
from vaswani_plugin.inference.text_scores import windows
from vaswani_plugin.metrics.ngram import baselines
from vaswani_plugin.metrics.perplexity import TextCounts, result
from vaswani_plugin.metrics.perplexity import figure as converted_figure
from vaswani_plugin.metrics.scored_text import ScoredText


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
        carry_state: go on with the state of a recurrent model from window to window.
    """

    model: LanguageModel
    tokens_per_sample: int | None = None
    context_window: int = 0
    batch_tokens: int = 4096
    dynamic: DynamicEvaluation | None = None
    carry_state: bool = False


def make_report(
    scored: ScoredText | None,
    scoring: Scoring | None = None,
    training: Sequence[Path] = (),
    validation: Path | None = None,
    figure: tuple[str, str] | None = None,
    counts: TextCounts | None = None,
) -> dict[str, Any]:
    """The report with all requested rows; `metrics.perplexity.as_text` formats it.

    Args:
        scored: the text; None: only its `counts` are known.
        scoring: how to score with a model; None: no model.
        training: training data of the n-gram baselines.
        validation: text on which baselines of words are scored, too.
        figure: a published figure, a number and its unit.
        counts: of the figure's text, if there is no text.

    Raises:
        ValueError: data, windows or a learning rate that can't be used.
        OSError: a file can't be read.
    """
    report = {"text": None, "windows": None, "dynamic": None}
    report |= {"results": [], "dynamic_gain": None, "warnings": []}
    if scored is not None:
        counts = scored.counts
        report["results"] += baselines(scored, training, validation)
        if scoring is not None:
            _add_model(report, scored, scoring)
        report["warnings"] += scored.warnings
    if figure is not None:
        report["results"].append(converted_figure(*figure, counts))
    report["text"] = counts and asdict(counts)
    return report


def _add_model(report: dict[str, Any], scored: ScoredText, scoring: Scoring) -> None:
    """Add the model's rows.

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
    rows = [
        result(name, scored.coding, scores, scored.counts, unknown=tokens.unknown)
        for name, scores in found.items()
    ]
    report["results"] += rows
    if dynamic is not None:
        report["dynamic_gain"] = gain(*rows)


def gain(static: dict[str, Any], dynamic: dict[str, Any]) -> dict[str, float | None]:
    """The reduction of the perplexities by dynamic evaluation, from the two rows."""
    keys = ("perplexity", "perplexity_per_word")
    return {k: None if static[k] is None else static[k] - dynamic[k] for k in keys}
