"""Cross-entropy rate and perplexity, and their conversion to other units of the same text.

A model assigns a probability to a text, whatever its tokens are. -log2 of this probability is the
number of bits in which the model could code the text. Divided by tokens, words, characters or
bytes, these bits give rates. Rates convert by the counts of the text: bits per word are bits per
character times characters per word, and perplexity per word is 2 to the bits per word. This is
valid only if the tokens represent the text without loss: an unknown token stands for many texts.

Line ends: a language model predicts where a line ends. The published convention (wikitext's <eos>,
the Penn Treebank's </s>) counts a line end as a word. Here it also counts as a character and a
byte, the newline in the file. Without line ends, `rates` divides the same bits by fewer units.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vaswani_plugin.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNITS = ("word", "character", "byte")
FIGURES = (*(f"bits-per-{unit}" for unit in UNITS), "perplexity-per-word")
HEADERS = (
    "|coding|nats/token|ppl/token|bits/token|ppl/word|bits/word|bits/character|bits/byte|ppl/word *"
).split("|")
LINE_ENDS = (
    "Line ends are predicted, and each counts as a word, a character and a byte (the convention of "
    "published figures).\n* The same bits over the words alone."
)


@dataclass(frozen=True)
class TextCounts:
    """Counts of a text; line ends count in `lines` alone, not as words, characters or bytes."""

    lines: int
    words: int  # between blanks
    characters: int  # Unicode code points
    bytes: int

    def units(self, unit: str, with_line_ends: bool) -> int:
        """The number of units ("word", "character", "byte"), with or without the line ends."""
        return getattr(self, f"{unit}s") + (self.lines if with_line_ends else 0)


def count_text(lines: Iterable[str]) -> TextCounts:
    """Count the units of a text, given as lines without line ends."""
    lines = list(lines)
    words = sum(len(line.split()) for line in lines)
    size = sum(len(line.encode("utf-8")) for line in lines)
    return TextCounts(len(lines), words, characters=sum(map(len, lines)), bytes=size)


def cross_entropy_rate(log_probabilities: Collection[Any]) -> float:
    """-1/T sum_t log P(w_t | w_1 .. w_{t-1}), in nats a token, of natural logarithms."""
    return -math.fsum(log_probabilities) / len(log_probabilities)


def perplexity(bits: float) -> float:
    """2 to the bits per unit; infinite where a float would overflow."""
    return 2.0**bits if bits < 1024 else math.inf


def rates(bits: float, counts: TextCounts | None, with_line_ends: bool) -> dict[str, float | None]:
    """Bits per unit, and perplexity per word, of a text of so many bits, by the report's keys.

    A value is None where the text has no such unit, or its counts are not known.
    """
    divisors = {unit: counts.units(unit, with_line_ends) if counts else 0 for unit in UNITS}
    values = {f"bits_per_{unit}": bits / n if n else None for unit, n in divisors.items()}
    word = values["bits_per_word"]
    return values | {"perplexity_per_word": None if word is None else perplexity(word)}


def result(
    name: str, coding: str, log_probabilities: "NDArray", counts: TextCounts | None, **details: Any
) -> dict[str, Any]:
    """One row of the report, in all units, from the natural logarithms (N,) of the tokens scored.

    `coding` is the kind of token: words, BPE, characters. `details` are more keys of the row.
    """
    nats, tokens = cross_entropy_rate(log_probabilities), len(log_probabilities)
    bits = nats / math.log(2)
    row: dict[str, Any] = {"name": name, "coding": coding, "tokens": tokens, "bits": bits * tokens}
    row |= {"cross_entropy_rate": nats, "perplexity": perplexity(bits), "bits_per_token": bits}
    return row | by_text_unit(row["bits"], counts) | details


def by_text_unit(bits: float, counts: TextCounts | None) -> dict[str, Any]:
    """The keys of a row that depend on the text's counts."""
    return rates(bits, counts, True) | {"without_line_ends": rates(bits, counts, False)}


def figure(number: float, unit: str, divisors: TextCounts) -> dict[str, Any]:
    """A published figure in all units: the row of `--figure VALUE UNIT`, of a text's counts."""
    asked = f"--figure {number} {unit}"
    if unit == "perplexity-per-word":
        number, unit = math.log2(number), "bits-per-word"
    units = divisors.units(unit.removeprefix("bits-per-"), with_line_ends=True)
    if not units:
        raise UserError(f"{asked}: that unit of the text isn't known")
    bits = number * units
    unknown = ("tokens", "cross_entropy_rate", "perplexity", "bits_per_token", "unknown")
    row = {"name": "figure", "coding": "", "bits": bits} | dict.fromkeys(unknown)
    return row | by_text_unit(bits, divisors)


def finite(value: Any) -> Any:
    """The report with None for infinite numbers, which JSON can't represent."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_text(report: dict[str, Any]) -> str:
    """The report as text."""
    from tabulate import tabulate

    lines = []
    if text := report["text"]:
        counts = ", ".join(f"{text[key]:,} {key}" for key in asdict(TextCounts(0, 0, 0, 0)))
        lines.append(f"Text: {counts} (line ends counted as lines alone)")
    if windows := report["windows"]:
        lines.append(
            f"Windows: {windows['tokens_per_sample']} tokens, of which up to "
            f"{windows['context_window']} are context"
        )
    left: dict[str, Any] = {"disable_numparse": True, "colalign": ("left", "left")}
    rows = report["results"]
    lines += ["", tabulate(list(map(_cells, rows)), headers=HEADERS, **left), "", LINE_ENDS]
    texts = ("training_perplexity", "validation_perplexity", "perplexity")
    counted = [
        [row["name"], row["coding"], *(_number(row[text], 2) for text in texts)]
        for row in rows
        if "training_perplexity" in row
    ]
    if counted:
        headers = ["", "coding", "training text", "validation text", "this text"]
        lines.append("\nPerplexity a token of what is counted (n-grams overfit):")
        lines.append(tabulate(counted, headers=headers, **left))
    if gain := report["dynamic_gain"]:
        per_word = gain["perplexity_per_word"]
        rest = "" if per_word is None else f", {per_word:.2f} a word"
        gained = f"{gain['perplexity']:.2f} of perplexity a token{rest}"
        lines.append(f"Dynamic evaluation gains {gained}.")
    lines += [f"Warning: {warning}" for warning in report["warnings"]]
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> list[str]:
    keys = ["cross_entropy_rate", "perplexity", "bits_per_token", "perplexity_per_word"]
    keys += [f"bits_per_{unit}" for unit in UNITS]
    values = [_number(row[key], 2 if key.startswith("perplexity") else 4) for key in keys]
    words_alone = _number(row["without_line_ends"]["perplexity_per_word"], 2)
    return [row["name"], row["coding"], *values, words_alone]


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
