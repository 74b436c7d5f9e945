"""The rules that clean text of any language, and the limits beyond which a text is refused.

Lengths are in characters or bytes, not in words, because many languages write no blanks between
words. No line is rewritten: a pair is kept as it is or dropped.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from vaswani_plugin.text.cleaning import CONTROL, SeenPairs
from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.sides import Pair, Sides
from vaswani_plugin.text.splitting import letters_and_digits

MOST_DROPPED = 0.5
"""Share of the pairs that a single rule may drop; if it drops more, the files are wrong."""
SHORT = 10
"""Characters added to both lengths before the comparison: short sentences vary most."""
LONG_LINE = 30
"""Length in characters from which a line of a language model's text should not occur twice."""

ONE_COLUMN, EMPTY = "only one column", "empty"
CARRIAGE_RETURN, CONTROLS = "carriage return inside the line", "control character"
TOO_LONG, NO_LETTERS = "too long", "letters on one side only"
COPY, UNEVEN, SWAPPED = "the same text on both sides", "lengths that don't fit", "sides swapped"
REPEATED, LEAKED = "repeated", "shares a sentence with held-out text"

REMEDIES = {
    ONE_COLUMN: "separate source and target by a tab",
    EMPTY: "fill the empty sides or give other files",
    CARRIAGE_RETURN: "end lines by a line feed (tr '\\r' '\\n')",
    CONTROLS: "this is no plain text: convert the file to UTF-8 text",
    TOO_LONG: "one sentence a line, or raise --max-length",
    NO_LETTERS: "the sides must correspond line by line",
    COPY: "give two different files, or say --copies keep if most of the text is to stay as it is",
    UNEVEN: "the sides must correspond line by line; if they do, raise --max-ratio",
    SWAPPED: "put each sentence on its own side",
    LEAKED: "give a validation and a test set that are not part of the training text",
}
"""By rule, the remedy if it drops most of the text."""


@dataclass(frozen=True)
class PairRules:
    """Limits for a pair.

    Args:
        max_length: bytes of a side in UTF-8 after NFKC. A vocabulary that holds all bytes never
            makes more subwords than that, in any script.
        max_ratio: how many times longer a side may be than expected from the other side and the
            usual ratio of the corpus' sides.
        drop_copies: whether pairs with the same letters and digits on both sides are dropped.

    Raises:
        InputError: no pair can satisfy the limits.
    """

    max_length: int = 1000
    max_ratio: float = 3.0
    drop_copies: bool = True

    def __post_init__(self) -> None:
        if self.max_length < 1:
            raise InputError(f"--max-length {self.max_length}: must be at least 1")
        if not self.max_ratio >= 1:  # also refuses nan
            raise InputError(f"--max-ratio {self.max_ratio:g}: must be at least 1")


def unusable(line: str) -> str | None:
    """Returns the rule that a single line breaks, or None if it is usable text."""
    if not line or line.isspace():
        return EMPTY
    if not line.isprintable():
        if "\r" in line:
            return CARRIAGE_RETURN
        if CONTROL.search(line):
            return CONTROLS
    return None


def has_letters(line: str) -> bool:
    """Whether a line holds a letter of any script."""
    return any(map(str.isalpha, line))


def byte_length(line: str) -> int:
    """Length of a line in bytes of UTF-8 after NFKC."""
    return len(line) if line.isascii() else len(unicodedata.normalize("NFKC", line).encode())


class PairScreen:
    """Judges the pairs of one corpus.

    Args:
        rules: the limits.
        sample: pairs of the corpus; the usual ratio of the lengths and the character bigrams of
            each side are learned from them.
    """

    def __init__(self, rules: PairRules, sample: Sequence[Pair]) -> None:
        usable = [pair for pair in sample if not any(map(unusable, pair))]
        self._rules = rules
        self._proportion = median([len(right) / len(left) for left, right in usable] or [1.0])
        self._sides = Sides([pair for pair in usable if pair[0] != pair[1]])

    def judge(self, left: str, right: str) -> str | None:
        """Returns the first rule that a pair breaks, or None."""
        rules = self._rules
        if broken := unusable(left) or unusable(right):
            return broken
        if max(byte_length(left), byte_length(right)) > rules.max_length:
            return TOO_LONG
        if has_letters(left) != has_letters(right):
            return NO_LETTERS
        if rules.drop_copies and letters_and_digits(left) == letters_and_digits(right):
            return COPY
        lengths = len(left) * self._proportion + SHORT, len(right) + SHORT
        if max(lengths) > rules.max_ratio * min(lengths):
            return UNEVEN
        if self._sides.swapped(left, right):
            return SWAPPED
        return None


def judge_lines() -> Callable[[str], str | None]:
    """Returns a function from a line of a language model's text to a broken rule, or None.

    A repeated long line is dropped, so that no long line is both in the training and the test text.
    Repeated short lines (a speaker's name, a refrain) are kept.
    """
    seen = SeenPairs()

    def broken(line: str) -> str | None:
        if rule := unusable(line):
            return rule
        if len(line) >= LONG_LINE and not seen.add(letters_and_digits(line), ""):
            return REPEATED
        return None

    return broken


class Dropped:
    """Counts the dropped pairs (or lines) by rule, with the first place of each rule.

    Args:
        unit: name of the counted items, a plural.
    """

    def __init__(self, unit: str = "pairs") -> None:
        self._unit = unit
        self.read = 0
        self.rules: dict[str, tuple[int, str]] = {}

    def note(self, rule: str | None, place: str) -> bool:
        """Counts a pair (or line) and the rule that it breaks; returns whether it is kept."""
        self.read += 1
        if rule is None:
            return True
        count, first = self.rules.get(rule, (0, place))
        self.rules[rule] = count + 1, first
        return False

    @property
    def kept(self) -> int:
        """Number of pairs (or lines) that broke no rule."""
        return self.read - sum(count for count, _ in self.rules.values())

    def check(self) -> None:
        """Refuses a text if one rule dropped too much of it, or the rules dropped everything.

        Raises:
            InputError: the text is refused; names rule, first place and remedy.
        """
        for rule, (count, first) in self.rules.items():
            if rule in REMEDIES and count > MOST_DROPPED * self.read:
                raise InputError(
                    f"{first}: {rule}: {count:,} of {self.read:,} {self._unit}, first here: "
                    f"{REMEDIES[rule]}"
                )
        if not self.kept:
            raise InputError(f"no {self._unit} are left: {self}")

    def as_json(self) -> dict[str, object]:
        """Returns the counts for the report."""
        rules = {rule: {"count": n, "first": first} for rule, (n, first) in self.rules.items()}
        return {"read": self.read, "kept": self.kept, "dropped": rules}

    def __str__(self) -> str:
        parts = [f"{count:,} {rule} (first {first})" for rule, (count, first) in self.rules.items()]
        return f"{self.kept:,} of {self.read:,} {self._unit} kept" + "".join(
            f"; dropped {part}" for part in parts
        )
