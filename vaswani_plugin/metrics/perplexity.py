"""Cross-entropy rate and perplexity, and what they are in other units of the same text.

A model gives a text a probability, whatever pieces it reads the text in; -log2 of it are the bits
in which the model could code the text. Divided by tokens, words, characters or bytes these bits
give rates, which convert by the real counts of the text: bits per word are bits per character times
characters per word, and perplexity per word is 2 to the bits per word. That holds between codings
that can represent the text faithfully: an unknown token codes any of many texts in its place.

Line ends: a language model predicts where a line ends. The published convention (wikitext's <eos>,
the Penn Treebank's </s>) counts that as a word; here also as a character and a byte, the newline
that it is in the file. `rates` without line ends divides the same bits by the rest alone.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

UNITS = ("word", "character", "byte")


@dataclass(frozen=True)
class TextCounts:
    """What a text holds; words are what blanks separate, characters Unicode's code points.

    Line ends are in `lines` alone: neither words nor characters nor bytes count them.
    """

    lines: int
    words: int
    characters: int
    bytes: int

    def units(self, unit: str, with_line_ends: bool) -> int:
        """How many of "word", "character" or "byte" there are.

        Raises ValueError for another unit.
        """
        if unit not in UNITS:
            raise ValueError(f"{unit!r} is no unit of text: {', '.join(UNITS)} are")
        return getattr(self, f"{unit}s") + (self.lines if with_line_ends else 0)


def count_text(lines: Iterable[str]) -> TextCounts:
    """Counts a text, given as its lines without their ends."""
    count = words = characters = size = 0
    for line in lines:
        count += 1
        words += len(line.split())
        characters += len(line)
        size += len(line.encode("utf-8"))
    return TextCounts(count, words, characters, size)


def cross_entropy_rate(log_probabilities: "ArrayLike") -> float:
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
    """2 to the bits per unit; infinite beyond what a float holds."""
    return 2.0**bits if bits < 1024 else math.inf


def convert(bits: float, units: float, other_units: float) -> float:
    """Bits per one unit as bits per another one.

    Args:
        bits: per unit.
        units: how many of them the text has.
        other_units: how many of the others the same text has.

    Raises:
        ValueError: the text has no such unit.
    """
    if units <= 0 or other_units <= 0:
        raise ValueError(f"{units} units and {other_units} others: a text needs some of both")
    return bits * units / other_units


def word_perplexity(bits_per_character: float, characters: float, words: float) -> float:
    """2 ^ (bits per character * characters / words)."""
    return perplexity(convert(bits_per_character, characters, words))


@dataclass(frozen=True)
class Rates:
    """Bits by unit; None where the text has none of that unit, or isn't known."""

    word: float | None
    character: float | None
    byte: float | None

    @property
    def perplexity_per_word(self) -> float | None:
        """2 to the bits per word."""
        return None if self.word is None else perplexity(self.word)


def rates(bits: float, counts: TextCounts, with_line_ends: bool) -> Rates:
    """A whole text's bits by unit; see the head of this file about line ends."""
    divisors = (counts.units(unit, with_line_ends) for unit in UNITS)
    return Rates(*(bits / divisor if divisor else None for divisor in divisors))
