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
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

UNITS = ("word", "character", "byte")


@dataclass(frozen=True)
class TextCounts:
    """Counts of a text; words are separated by blanks, characters are Unicode code points.

    Line ends count in `lines` alone, not as words, characters or bytes.
    """

    lines: int
    words: int
    characters: int
    bytes: int

    def units(self, unit: str, with_line_ends: bool) -> int:
        """The number of units in the text.

        Args:
            unit: "word", "character" or "byte".
            with_line_ends: count each line end as a unit.

        Raises:
            ValueError: another unit.
        """
        if unit not in UNITS:
            raise ValueError(f"{unit!r} is no unit of text: {', '.join(UNITS)} are")
        return getattr(self, f"{unit}s") + (self.lines if with_line_ends else 0)


def count_text(lines: Iterable[str]) -> TextCounts:
    """Count the units of a text, given as lines without line ends."""
    count = words = characters = size = 0
    for line in lines:
        count += 1
        words += len(line.split())
        characters += len(line)
        size += len(line.encode("utf-8"))
    return TextCounts(count, words, characters, size)


def cross_entropy_rate(log_probabilities: Iterable[Any]) -> float:
    """-1/T sum_t log P(w_t | w_1 .. w_{t-1}), in nats a token.

    Args:
        log_probabilities: natural logarithms, one a token.

    Raises:
        ValueError: there is no token.
    """
    values = [float(value) for value in log_probabilities]
    if not values:
        raise ValueError("a text without tokens has no cross-entropy rate")
    return -math.fsum(values) / len(values)


def perplexity(bits: float) -> float:
    """2 to the bits per unit; infinite where a float would overflow."""
    return 2.0**bits if bits < 1024 else math.inf


@dataclass(frozen=True)
class Rates:
    """Bits per unit; None where the text has no such unit or the count isn't known."""

    word: float | None
    character: float | None
    byte: float | None

    @property
    def perplexity_per_word(self) -> float | None:
        """2 to the bits per word."""
        return None if self.word is None else perplexity(self.word)


def rates(bits: float, counts: TextCounts, with_line_ends: bool) -> Rates:
    """Bits per unit from the bits of a whole text; the module's docstring explains line ends."""
    divisors = (counts.units(unit, with_line_ends) for unit in UNITS)
    return Rates(*(bits / divisor if divisor else None for divisor in divisors))
