"""Perplexities in all units as a JSON object, and the same as a table."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vaswani_plugin.metrics.perplexity import (
    UNITS,
    Rates,
    TextCounts,
    cross_entropy_rate,
    perplexity,
    rates,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

FIGURES = (*(f"bits-per-{unit}" for unit in UNITS), "perplexity-per-word")
HEADERS = (
    *("", "coding", "nats/token", "ppl/token", "bits/token", "ppl/word", "bits/word"),
    *("bits/character", "bits/byte", "ppl/word *"),
)
LINE_ENDS = {
    "score": "Line ends are predicted, and each counts as a word, a character and a byte (the "
    "convention of published figures).\n* The same bits over the words alone.",
    "skip": "Line ends are not scored, and count as nothing.",
}


def result(
    name: str,
    coding: str,
    log_probabilities: "NDArray",
    counts: TextCounts | None,
    **details: Any,
) -> dict[str, Any]:
    """One row of the report, in all units.

    Args:
        name: of the row.
        coding: kind of token: words, BPE, characters.
        log_probabilities: natural logarithms, (N,), of the tokens that are scored.
        counts: of the text, with 0 lines if line ends are not scored; None: not known.
        details: more keys of the row.

    Raises:
        ValueError: no token is scored.
    """
    nats = cross_entropy_rate(log_probabilities)
    bits = nats / math.log(2)
    total_bits = bits * len(log_probabilities)
    row = {
        "name": name,
        "coding": coding,
        "tokens": len(log_probabilities),
        "bits": total_bits,
        "cross_entropy_rate": nats,
        "perplexity": perplexity(bits),
        "bits_per_token": bits,
    }
    return row | by_text_unit(total_bits, counts) | details


def by_text_unit(bits: float, counts: TextCounts | None) -> dict[str, Any]:
    """The keys of a row that depend on the text's counts; None where these aren't known."""
    unknown = Rates(None, None, None)
    counted = unknown if counts is None else rates(bits, counts, with_line_ends=True)
    alone = unknown if counts is None else rates(bits, counts, with_line_ends=False)
    return _keys(counted) | {"without_line_ends": _keys(alone)}


def figure(value: str, unit: str, divisors: TextCounts | None) -> dict[str, Any]:
    """A published figure in all units: the row of `--figure`.

    Args:
        value: the number, as text.
        unit: one of `FIGURES`.
        divisors: counts of the figure's text; None: not known.

    Raises:
        ValueError: no number, no such unit, or a text without such units.
    """
    if unit not in FIGURES:
        raise ValueError(f"--figure {value} {unit}: the unit must be one of {', '.join(FIGURES)}")
    try:
        number = float(value)
    except ValueError as error:
        raise ValueError(f"--figure {value} {unit}: {value!r} is no number") from error
    if divisors is None:
        raise ValueError("--figure needs the text's counts: give --text FILE or --counts")
    if unit == "perplexity-per-word":
        if not number >= 1:
            raise ValueError(f"--figure {value} {unit}: a perplexity is at least 1")
        number, unit = math.log2(number), "bits-per-word"
    elif not 0 <= number < math.inf:
        raise ValueError(f"--figure {value} {unit}: bits are a number from 0 on")
    units = divisors.units(unit.removeprefix("bits-per-"), with_line_ends=True)
    if not units:
        raise ValueError(f"--figure {value} {unit}: that unit of the text isn't known")
    bits = number * units
    unknown = ("tokens", "cross_entropy_rate", "perplexity", "bits_per_token", "unknown")
    row = {"name": "figure", "coding": "", "bits": bits} | dict.fromkeys(unknown)
    return row | by_text_unit(bits, divisors)


def _keys(found: Rates) -> dict[str, Any]:
    keys = {f"bits_per_{unit}": value for unit, value in asdict(found).items()}
    return keys | {"perplexity_per_word": found.perplexity_per_word}


def finite(value: Any) -> Any:
    """The report with None for infinite numbers, which JSON can't represent."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_text(report: dict[str, Any]) -> str:
    """The report as text."""
    return "\n".join(_lines(report))


def _lines(report: dict[str, Any]) -> Iterator[str]:
    text = report["text"]
    if text is not None:
        counts = ", ".join(f"{text[key]:,} {key}" for key in asdict(TextCounts(0, 0, 0, 0)))
        yield f"Text: {counts} (line ends counted as lines alone)"
    windows = report["windows"]
    if windows is not None:
        yield (
            f"Windows: {windows['tokens_per_sample']} tokens, of which up to "
            f"{windows['context_window']} are context"
        )
    yield ""
    rows = [_cells(row) for row in report["results"]]
    from tabulate import tabulate

    yield tabulate(rows, headers=HEADERS, disable_numparse=True, colalign=("left", "left"))
    yield ""
    yield LINE_ENDS[report["line_ends"]]
    yield from _overfitting_lines(report["results"])
    gain = report["dynamic_gain"]
    if gain is not None:
        per_word = gain["perplexity_per_word"]
        rest = "" if per_word is None else f", {per_word:.2f} a word"
        yield f"Dynamic evaluation gains {gain['perplexity']:.2f} of perplexity a token{rest}."
    for warning in report["warnings"]:
        yield f"Warning: {warning}"


def _overfitting_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A table of the n-grams' perplexities on their training text and on other texts."""
    counted = [
        [
            *(row["name"], row["coding"]),
            *(_number(row[f"{text}_perplexity"], 2) for text in ("training", "validation")),
            _number(row["perplexity"], 2),
        ]
        for row in rows
        if "training_perplexity" in row
    ]
    if counted:
        from tabulate import tabulate

        yield "\nPerplexity a token of what is counted (n-grams overfit):"
        headers = ["", "coding", "training text", "validation text", "this text"]
        yield tabulate(counted, headers=headers, disable_numparse=True, colalign=("left", "left"))


def _cells(row: dict[str, Any]) -> list[str]:
    values = (
        (row["cross_entropy_rate"], 4),
        (row["perplexity"], 2),
        (row["bits_per_token"], 4),
        (row["perplexity_per_word"], 2),
        (row["bits_per_word"], 4),
        (row["bits_per_character"], 4),
        (row["bits_per_byte"], 4),
        (row["without_line_ends"]["perplexity_per_word"], 2),
    )
    return [row["name"], row["coding"], *(_number(*value) for value in values)]


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
