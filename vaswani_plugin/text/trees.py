"""Constituency trees as Penn-Treebank bracketings: ``(S (NP (DT the) (NN dog)) (VP (VBZ barks)))``.

A tree is the list of its symbols from left to right: `Open(label)`, `Leaf(tag, word)`, `CLOSE`.
Reading, cleaning, linearizing and writing each pass over that list once, without recursion, so the
depth of a tree has no limit; and they don't wait for nltk, whose import takes half as long as that
of torch. `nltk_tree` makes nltk's trees for users, who know them.

The reader accepts the forms that treebanks use: one tree a line, several trees a line, or trees
over several lines; roots without a label; words with blanks in them. White space is that of ASCII:
a no-break space is part of its word.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_lines
from vaswani_plugin.text.raw_text import canonical

if TYPE_CHECKING:
    from nltk.tree import Tree as NltkTree


class Open(NamedTuple):
    """The opening bracket of a constituent."""

    label: str


class Leaf(NamedTuple):
    """A word and its part of speech."""

    tag: str
    word: str


class Close(NamedTuple):
    """The closing bracket of a constituent."""


CLOSE = Close()
Symbol = Open | Leaf | Close
Tree = list[Symbol]

_TOKEN = re.compile(r"[()]|[^()\s]+", re.ASCII)


class BadTree(ValueError):
    """Error: a text is no tree; the message gives the reason."""


def _parse(lines: Iterable[str], path: str = "") -> Iterator[Tree]:
    """Yields the trees of a file, or of a text; BadTree names the line where its tree begins."""
    tree: Tree = []
    depth = number = first = 0
    pending: list[str] | None = None  # the label, then words, between "(" and the next bracket

    def bad(reason: str) -> BadTree:
        seen = f" (line {number})" if number > first else ""
        return BadTree(f"{path}:{first}: {reason}{seen}" if path else reason)

    for number, line in enumerate(lines, 1):
        for token in _TOKEN.findall(line):
            if not tree and pending is None:
                first = number
            if token == "(":
                if pending is not None:
                    if len(pending) > 1:
                        raise bad(f"{pending[1]!r} stands beside brackets, not in one of its own")
                    if not pending and depth:
                        raise bad("a bracket inside of the tree has no label")
                    tree.append(Open("".join(pending)))
                    depth += 1
                pending = []
            elif token == ")" and pending is not None:
                if len(pending) < 2:
                    raise bad(f"the bracket '({''.join(pending)})' holds nothing")
                tree.append(Leaf(pending[0], " ".join(pending[1:])))
                pending = None
            elif token == ")" and depth:
                tree.append(CLOSE)
                depth -= 1
            elif pending is not None:
                pending.append(token)
            elif depth:
                raise bad(f"{token!r} stands beside brackets, not in one of its own")
            else:
                raise bad(f"{token[:20]!r} stands outside of brackets")
            if not depth and pending is None:
                yield tree
                tree = []
    if depth or pending is not None:
        raise bad("a closing bracket is missing")


def parse_tree(text: str) -> Tree:
    """Parses a text that holds exactly one tree; raises BadTree for any other."""
    trees = list(_parse(text.split("\n")))
    if len(trees) != 1:
        raise BadTree(f"one tree expected, {len(trees)} found")
    return trees[0]


def read_trees(path: str | Path) -> Iterator[Tree]:
    """Yields the trees of a file, plain, `.gz` or `-`; a `UserError` names a bad tree's line."""
    tree = None
    try:
        for tree in _parse(read_lines(path), str(path)):  # noqa: B007
            yield tree
    except BadTree as error:
        raise UserError(f"{error}: correct the file") from error
    if tree is None:
        raise UserError(f"{path}: no trees in it; give bracketings such as (S (NN word))")


def to_line(tree: Iterable[Symbol]) -> str:
    """Formats a tree as a bracketing on one line, with single blanks between its parts."""

    def part(symbol: Symbol) -> str:
        if isinstance(symbol, Leaf):
            return f" ({symbol.tag} {symbol.word})"
        return f" ({symbol.label}" if isinstance(symbol, Open) else ")"

    return "".join(map(part, tree))[1:]


def leaves(tree: Iterable[Symbol]) -> list[Leaf]:
    """Returns the words with their tags, from left to right."""
    return [symbol for symbol in tree if isinstance(symbol, Leaf)]


def nltk_tree(tree: Tree) -> "NltkTree":
    """Returns a tree as nltk's; a leaf is the word, below its tag."""
    from nltk.tree import Tree as NltkTree

    outside = NltkTree("", [])
    above = [outside]
    for symbol in tree:
        if isinstance(symbol, Leaf):
            above[-1].append(NltkTree(symbol.tag, [symbol.word]))
        elif isinstance(symbol, Open):
            above[-1].append(NltkTree(symbol.label, []))
            above.append(above[-1][-1])
        else:
            above.pop()
    return outside[0]


def escape_brackets(word: str) -> str:
    """Writes a word of running text as in treebanks: "(" as -LRB-, ")" as -RRB-."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def unescape_brackets(word: str) -> str:
    """Undoes `escape_brackets`, for display."""
    return word.replace("-LRB-", "(").replace("-RRB-", ")")


EMPTY_TAG = "-NONE-"
ROOT = "TOP"
# Labels of the root in treebanks and parsers; any other label is that of a constituent below it.
ROOTS = frozenset({"", "TOP", "ROOT", "S1"})
_FUNCTIONS = re.compile(r"(?<=.)[-=].*", re.DOTALL)


def strip_functions(label: str) -> str:
    """Returns the category of a label; -LRB- and other labels that begin with a hyphen stay."""
    return label if label.startswith("-") else _FUNCTIONS.sub("", label)


def clean(tree: Tree) -> Tree | None:
    """Cleans a tree as the parsing literature does before training and scoring; None without words.

    Empty elements (tag -NONE-) are removed, with the constituents that become empty. Function
    labels, indices and gapping are removed from labels and tags (NP-SBJ-1 and NP=2 become NP). The
    root gets the same symbol in all trees. Unary chains stay, also new ones (an NP over an NP).
    Invisible characters, and no-break and thin spaces around a word, which occur in CRAFT, are
    removed, and so is a word that is nothing else: a parser reads words without them.
    """
    kept: list[Symbol] = []
    for symbol in tree:
        if isinstance(symbol, Leaf):
            word = canonical(symbol.word).strip()
            if word and symbol.tag != EMPTY_TAG:
                kept.append(Leaf(strip_functions(symbol.tag), word))
        elif isinstance(symbol, Open):
            kept.append(Open(strip_functions(symbol.label)))
        elif isinstance(kept[-1], Open):  # a closing bracket of an empty constituent
            kept.pop()
        else:
            kept.append(CLOSE)
    if not kept:
        return None
    if isinstance(kept[0], Open) and kept[0].label in ROOTS:
        return [Open(ROOT), *kept[1:]]
    return [Open(ROOT), *kept, CLOSE]
