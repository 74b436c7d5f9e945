"""EVALB's parameter (.prm) files: labels and words that scores ignore or count as equal."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

Pairs = frozenset[tuple[str, str]]
_NUMBERS = {"DEBUG": "debug", "MAX_ERROR": "max_error", "CUTOFF_LEN": "cutoff"}
_LABELS = {
    "DELETE_LABEL": "delete",
    "DELETE_LABEL_FOR_LENGTH": "delete_for_length",
    "QUOTE_LABEL": "quotes",
    "QUOTE_TERM": "quotes",
}
_PAIRS = {"EQ_LABEL": "equal_labels", "EQ_WORD": "equal_words"}
_SWITCHES = ("LABELED", "DISC_ONLY")
KEYWORDS = (*_NUMBERS, "LABELED", *_LABELS, *_PAIRS, "DISC_ONLY")


@dataclass(frozen=True)
class Parameters:
    """The settings of a .prm file; the defaults are EVALB's without such a file.

    debug: 0, 1 (words and brackets of each sentence) or 2 (also the differences). max_error: more
    errors end the scoring. cutoff: the longest sentence of the second summary, in words. labelled:
    labels must match. delete: brackets and words with these labels don't count. delete_for_length:
    words with these tags don't count in the length. quotes: tags of quotation marks, restored where
    only one side deletes them. equal_labels, equal_words: pairs that count as equal, both ways.
    """

    debug: int = 0
    max_error: int = 10
    cutoff: int = 40
    labelled: bool = True
    delete: frozenset[str] = frozenset()
    delete_for_length: frozenset[str] = frozenset()
    quotes: frozenset[str] = frozenset()
    equal_labels: Pairs = frozenset()
    equal_words: Pairs = frozenset()

    @property
    def delete_brackets(self) -> frozenset[str]:
        """Labels of brackets that don't count: DELETE_LABEL's and, as in EVALB, their EQ_LABELs."""
        return self.delete | {one for one, other in self.equal_labels if other in self.delete}


# Collins' (1997), the usual settings for scoring parsers; but errors don't end the scoring.
COLLINS = Parameters(
    max_error=10_000,
    delete=frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."}),
    delete_for_length=frozenset({"-NONE-"}),
    equal_labels=frozenset({("ADVP", "PRT"), ("PRT", "ADVP")}),
)


def parse_parameters(lines: Iterable[str], name: str) -> Parameters:
    """The settings of a .prm file: a keyword and its values a line; "#" begins a comment line.

    Args:
        lines: of the file.
        name: of the file, for error messages.

    Raises:
        ValueError: an unknown keyword or an invalid value; names the line.
    """
    settings = Parameters()
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if line.startswith("#") or not fields:
            continue
        try:
            settings = _set(settings, fields[0], fields[1:])
        except ValueError as error:
            raise ValueError(f"{name}:{number}: {error}") from error
    return settings


def _set(settings: Parameters, keyword: str, values: list[str]) -> Parameters:
    if keyword not in KEYWORDS:
        raise ValueError(f"unknown keyword {keyword}; there are {', '.join(KEYWORDS)}")
    expected = 2 if keyword in _PAIRS else 1
    if len(values) != expected:
        raise ValueError(
            f"{keyword} takes {expected} value{'s'[: expected - 1]}, not {len(values)}"
        )
    if keyword in _PAIRS:
        field, (one, other) = _PAIRS[keyword], values
        return replace(settings, **{field: getattr(settings, field) | {(one, other), (other, one)}})
    value = values[0]
    if keyword in _LABELS:
        field = _LABELS[keyword]
        return replace(settings, **{field: getattr(settings, field) | {value}})
    if not (value.isascii() and value.isdigit()):
        raise ValueError(f"{keyword} takes a number from 0 on, not {value!r}")
    if keyword in _SWITCHES and value not in ("0", "1"):
        raise ValueError(f"{keyword} is 0 or 1, not {value}")
    if keyword == "DISC_ONLY":
        if value == "1":
            raise ValueError("DISC_ONLY 1: discontinuous trees are not scored here")
        return settings
    field = _NUMBERS.get(keyword, "labelled")
    number: Any = bool(int(value)) if field == "labelled" else int(value)
    return replace(settings, **{field: number})
