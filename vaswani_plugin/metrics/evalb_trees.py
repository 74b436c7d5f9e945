"""Reads a line of trees as EVALB does: the words and brackets that count, in EVALB's numbering."""

import re
from dataclasses import dataclass, field

from vaswani_plugin.metrics.evalb_parameters import Parameters

# EVALB's results for a bracket or word: not examined, wrong, right, deleted.
UNSEEN, WRONG, RIGHT, DELETED = 9, 0, 1, 5

# EVALB's limit is 200. Treebanks have a few hundred at most. Scoring takes quadratic time.
MOST_BRACKETS = 1000

_LEAF = re.compile(r"\(([^\s()]*)\s+([^\s()]*)\)", re.ASCII)
_OPEN = re.compile(r"\(([^\s()]*)", re.ASCII)
_CLOSE_OR_SPACE = re.compile(r"\)|\s+", re.ASCII)
_QUOTES = ("'", '"', "/")


@dataclass
class Word:
    """A word and its tag."""

    tag: str
    word: str
    result: int = UNSEEN


@dataclass
class Bracket:
    """A constituent of the words start to end - 1; content is its text after the label."""

    label: str
    start: int
    content_start: int
    end: int = -1
    content: str = ""
    result: int = UNSEEN

    @property
    def span(self) -> tuple[int, int]:
        """Its words: start, and end (exclusive)."""
        return self.start, self.end

    def crosses(self, other: "Bracket") -> bool:
        """Whether the two overlap and neither contains the other."""
        return (
            self.start < other.start < self.end < other.end
            or other.start < self.start < other.end < self.end
        )


@dataclass
class _Quote:
    """A quotation mark, and its position among the words and brackets that count."""

    word: Word
    index: int
    bracket: int
    enclosing: list[int]


@dataclass
class Bracketing:
    """A tree as EVALB sees it.

    words: the words without a deleted tag. brackets: in the order in which they open, at most
    `MOST_BRACKETS`. length: number of words for the cut-off. errors: messages about the line.
    is_readable: whether the line could be read to its end.
    """

    words: list[Word] = field(default_factory=list)
    brackets: list[Bracket] = field(default_factory=list)
    length: int = 0
    errors: list[str] = field(default_factory=list)
    is_readable: bool = True
    quotes: list[_Quote] = field(default_factory=list)

    @property
    def counted(self) -> list[Bracket]:
        """The brackets that were not deleted."""
        return [bracket for bracket in self.brackets if bracket.result != DELETED]


def read_bracketing(line: str, parameters: Parameters) -> Bracketing:
    """Read a line as EVALB does.

    EVALB accepts more than a treebank reader: several trees on a line, a word without a constituent
    around it, or an empty line.
    """
    found = Bracketing()
    stack: list[int] = []
    position = 0
    while position < len(line):
        if leaf := _LEAF.match(line, position):
            _add_word(found, Word(leaf[1], leaf[2]), stack, parameters)
            position = leaf.end()
        elif opening := _OPEN.match(line, position):
            position = opening.end()
            if len(found.brackets) == MOST_BRACKETS:
                found.errors.append(f"More than {MOST_BRACKETS} brackets")
                found.is_readable = False
                return found
            stack.append(len(found.brackets))
            found.brackets.append(Bracket(opening[1], len(found.words), position))
        elif other := _CLOSE_OR_SPACE.match(line, position):
            if other[0] == ")" and stack:
                bracket = found.brackets[stack.pop()]
                bracket.end = len(found.words)
                bracket.content = line[bracket.content_start : position]
            elif other[0] == ")":
                found.errors.append("Bracketing unbalance (too many close bracket)")
            position = other.end()
        else:
            found.errors.append("Reading sentence")
            found.is_readable = False
            return found
    if stack:
        found.errors.append("Bracketing is unbalanced (too many open bracket)")
    return found


def _add_word(found: Bracketing, word: Word, stack: list[int], parameters: Parameters) -> None:
    found.length += word.tag not in parameters.delete_for_length
    if word.tag in parameters.quotes and word.word in _QUOTES:
        place = len(found.words), len(found.brackets)
        found.quotes.append(_Quote(word, *place, enclosing=list(stack)))
    if word.tag not in parameters.delete:
        found.words.append(word)


def put_back(tree: Bracketing, number: int) -> None:
    """Restore the deleted quotation mark `tree.quotes[number]` to the words that count."""
    quote = tree.quotes[number]
    tree.words.insert(quote.index, quote.word)
    for bracket in tree.brackets[quote.bracket :]:
        bracket.start += 1
        bracket.end += 1
    for enclosing in quote.enclosing:
        tree.brackets[enclosing].end += 1
    for later in tree.quotes[number:]:
        later.index += 1
