"""Rules of `vaswani attention --search`: words and the words that they should find in a sentence.

The lists are closed classes of English words and frequent nouns, so that no tagger is needed;
`read_rule` reads others.
"""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vaswani_plugin.text.corpus_io import read_lines
from vaswani_plugin.text.messages import InputError

PUNCTUATION = string.punctuation + "\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb\u2026"


@dataclass(frozen=True)
class Pairs:
    """Words that belong together.

    Args:
        queries: the words that look, in lower case.
        partners: the words that they should find; the nearest one counts.
        side: where the partner stands: `before` the query, `after` it, or `either`.
    """

    queries: frozenset[str]
    partners: frozenset[str]
    side: str = "either"

    def partner(self, words: Sequence[str], query: int, least: int) -> int | None:
        """Returns the position of the nearest partner, at least `least` words away, or None."""
        sides = {"before": (-1,), "after": (1,), "either": (-1, 1)}[self.side]
        for distance in range(least, len(words)):
            for sign in sides:
                place = query + sign * distance
                if 0 <= place < len(words) and words[place] in self.partners:
                    return place
        return None


@dataclass(frozen=True)
class Rule:
    """Pairs, and how many words apart query and partner stand at least."""

    pairs: tuple[Pairs, ...]
    least_distance: int = 1

    def find(self, words: Sequence[str]) -> list[tuple[int, int]]:
        """Returns the positions (query, partner) in a sentence; a query has one partner.

        Case does not count, nor does punctuation around a word.
        """
        words = [word.casefold().strip(PUNCTUATION) for word in words]
        found = []
        for query, word in enumerate(words):
            for pairs in self.pairs:
                if word in pairs.queries:
                    place = pairs.partner(words, query, self.least_distance)
                    if place is not None:
                        found.append((query, place))
                        break
        return found


def _pairs(queries: str, partners: str, side: str) -> Pairs:
    return Pairs(
        frozenset(queries.casefold().split()), frozenset(partners.casefold().split()), side
    )


_PARTICLES = "up down off out on away back apart together over"
RULES = {
    "pronoun": Rule(
        (
            _pairs(
                "he him his himself",
                "man boy guy gentleman father son brother husband king president minister player "
                "worker driver child baby person toddler",
                "before",
            ),
            _pairs(
                "she her hers herself",
                "woman girl lady mother daughter sister wife queen bride child baby person toddler",
                "before",
            ),
            _pairs(
                "they them their themselves",
                "people men women boys girls children kids players workers friends ladies guys "
                "couple family group team students dogs horses companies countries",
                "before",
            ),
            _pairs(
                "it its itself",
                "dog cat horse bird animal car bike boat truck ball company country government "
                "city team law application group party",
                "before",
            ),
        )
    ),
    "long-distance": Rule(
        (
            _pairs("both between", "and", "after"),
            _pairs("either whether", "or", "after"),
            _pairs("neither", "nor", "after"),
            _pairs("from", "to", "after"),
            _pairs("more less rather", "than", "after"),
            _pairs(
                "make makes making made", "difficult easy easier hard possible clear sure", "after"
            ),
            *(
                _pairs(" ".join((verb, f"{verb}s", *more.split())), _PARTICLES, "after")
                for verb, more in {
                    "take": "taking took taken", "put": "putting", "pick": "picking picked",
                    "throw": "throwing threw thrown", "pull": "pulling pulled",
                    "hold": "holding held", "set": "setting", "lift": "lifting lifted",
                }.items()
            ),
        ),
        least_distance=5,
    ),
}  # fmt: skip
"""English rules by name. `long-distance`: words that demand a later one, as Figure 3's "making ...
more difficult". `pronoun`: a pronoun and the nearest noun before it that agrees (Figure 4)."""


def read_rule(path: Path) -> tuple[Pairs, ...]:
    """Read the pairs of a rule: a line holds queries, a tab, partners, and may hold a tab, a side.

    Args:
        path: words are separated by blanks; empty lines and those that start with # don't count.

    Raises:
        InputError: a line without queries or partners, or with an unknown side; names it.
        OSError: the file can't be read.
    """
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) not in (2, 3) or not all(fields):
            raise InputError(f"{path}:{number}: must be queries, a tab, partners[, a tab, a side]")
        side = fields[2] if len(fields) == 3 else "either"
        if side not in ("before", "after", "either"):
            raise InputError(f"{path}:{number}: side {side}: must be before, after or either")
        pairs.append(_pairs(fields[0], fields[1], side))
    if not pairs:
        raise InputError(f"{path}: holds no pairs; a line is queries, a tab, partners")
    return tuple(pairs)


def choose_rule(name: str | None, pairs: Path, least_distance: int | None) -> Rule:
    """Returns the rule of a name in `RULES` or, without a name, of a file.

    Args:
        name: a key of `RULES`, or None.
        pairs: the file.
        least_distance: in words; None: the rule's own.

    Raises:
        InputError, OSError: as for `read_rule`.
    """
    rule = RULES[name] if name else Rule(read_rule(pairs))
    return rule if least_distance is None else Rule(rule.pairs, least_distance)
