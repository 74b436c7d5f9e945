"""The tables, the plots and the last line of recipes/section5.sh.

A part's figures are `Columns`: the name of a column and its rows; a row with measurements holds a
list, one value for each seed.
"""

import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from tabulate import tabulate
from trainings import over_seeds

from vaswani_plugin.figures.figures import new_figure, save_figure

Columns = dict[str, list[Any]]

DIGITS = {"PPL": 2, "BLEU": 2, "BLEU, 10 averaged": 2, "length / reference": 3}
TITLES = {
    "smoothing": "Label smoothing (section 5.4: it hurts perplexity and helps BLEU)",
    "averaging": "Checkpoint averaging (section 6.1: the last 5 of base, the last 20 of big)",
    "penalty": "Length penalty (section 6.1: alpha 0.6)",
    "order": "Order of batches (section 5.1: by approximate length), equal target tokens",
    "warmup": "Warm-up and factor of the rate (section 5.3, Eq. 3), a quarter of the updates",
}


def as_markdown(part: str, columns: Columns, types: int) -> str:
    """Formats a part's table; a perplexity over the vocabulary's size has diverged."""
    rows = []
    for values in zip(*columns.values(), strict=True):
        shown = []
        for name, value in zip(columns, values, strict=True):
            if name == "PPL" and not fmean(value) < types:
                shown.append("diverged")
            elif isinstance(value, list):
                shown.append(over_seeds(value, DIGITS[name]))
            else:
                shown.append(value if isinstance(value, str) else f"{value:g}")
        rows.append(shown)
    table = tabulate(rows, list(columns), "github", disable_numparse=True)
    return f"## {TITLES[part]}\n\n{table}\n"


def draw(found: dict[str, Columns], types: int, path: Path) -> None:
    """Draws a panel for each part; bars are standard errors.

    Raises:
        OSError: the picture can't be written.
    """
    figure = new_figure(5 * len(found), 4)
    for panel, (part, columns) in zip(
        figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True
    ):
        panel.set_title(TITLES[part].split(" (")[0], fontsize=9)
        if part == "warmup":
            for updates in dict.fromkeys(columns["warm-up"]):
                points = [
                    (factor, min(ppl[0], types) if math.isfinite(ppl[0]) else types)
                    for w, factor, ppl in zip(
                        columns["warm-up"], columns["factor"], columns["PPL"], strict=True
                    )
                    if w == updates
                ]
                panel.loglog(*zip(*points, strict=True), "o-", label=f"warm-up {updates}")
            panel.axhline(types, color="0.7", linestyle=":")
            panel.set(xlabel="factor", ylabel="validation PPL (dotted: uniform)")
            panel.legend(fontsize=7)
            continue
        name, places = next(iter(columns.items()))
        for label, marker in (("BLEU", "o"), ("BLEU, 10 averaged", "^")):
            if label in columns:
                _errorbar(panel, places, columns[label], "C0", marker, label)
        panel.set(xlabel=name, ylabel="BLEU")
        panel.legend(fontsize=7)
        if part == "penalty":
            panel.axvline(0.6, color="0.7", linestyle=":")
        if "PPL" in columns:
            other = panel.twinx()
            _errorbar(other, places, columns["PPL"], "C1", "s", "PPL")
            other.set_ylabel("PPL", color="C1")
    save_figure(figure, path)


def _errorbar(
    panel: Any, places: list[Any], values: list[list[float]], colour: str, marker: str, label: str
) -> None:
    errors = [stdev(v) / math.sqrt(len(v)) if len(v) > 1 else 0 for v in values]
    style = {"color": colour, "capsize": 2, "label": label, "linestyle": "-", "marker": marker}
    panel.errorbar(places, [fmean(v) for v in values], errors, **style)


def summary(found: dict[str, Columns]) -> str:
    """Formats the last line for people."""
    texts = []
    for part, columns in found.items():
        if part == "warmup":
            texts.append(f"warmup: {len(columns['PPL'])} trainings")
            continue
        name, places = next(iter(columns.items()))
        means = [fmean(values) for values in columns["BLEU"]]
        best = places[means.index(max(means))]
        texts.append(f"{part}: best BLEU {max(means):.1f} at {name} {best}")
    return "; ".join(texts)
