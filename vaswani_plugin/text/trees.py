"""Constituency trees as Penn-Treebank bracketings: ``(S (NP (DT the) (NN dog)) (VP (VBZ barks)))``.

A tree is the list of its symbols from left to right: `Open(label)`, `Leaf(tag, word)`, `CLOSE`.
Reading, cleaning, linearizing and writing each pass over that list once, without recursion, so the
depth of a tree has no limit; and they don't wait for nltk, whose import takes half as long as that
of torch. `nltk_tree` makes nltk's trees for users, who know them.

The reader accepts the forms that treebanks use: one tree a line, several trees a line, or trees
over several lines; roots without a label; words with blanks in them. White space is that of ASCII:
a no-break space is part of its word.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.lines import open_binary

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
_BRACKET = re.compile(rb"[()]")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


class BadTree(ValueError):
    """Error: a text is no tree; the message gives the reason."""


def parse_tree(text: str) -> Tree:
    """Parses a text that holds exactly one tree.

    Raises:
        BadTree: the text holds no tree, more than one, or something else.
    """
    tree: Tree = []
    depth = 0
    pending: list[str] | None = None  # the label, then words, between "(" and the next bracket
    for token in _TOKEN.findall(text):
        if tree and not depth:
            raise BadTree("one tree expected, more found")
        if token == "(":
            if pending is not None:
                if len(pending) > 1:
                    raise BadTree(f"{pending[1]!r} stands beside brackets, not in one of its own")
                if not pending and depth:
                    raise BadTree("a bracket inside of the tree has no label")
                tree.append(Open("".join(pending)))
                depth += 1
            pending = []
        elif token == ")" and pending is not None:
            if len(pending) < 2:
                raise BadTree(f"the bracket '({''.join(pending)})' holds nothing")
            tree.append(Leaf(pending[0], " ".join(pending[1:])))
            pending = None
        elif token == ")" and depth:
            tree.append(CLOSE)
            depth -= 1
        elif pending is not None:
            pending.append(token)
        elif depth:
            raise BadTree(f"{token!r} stands beside brackets, not in one of its own")
        else:
            raise BadTree(f"{token[:20]!r} stands outside of brackets")
    if depth or pending is not None:
        raise BadTree("a closing bracket is missing")
    if not tree:
        raise BadTree("one tree expected, none found")
    return tree


def read_trees(path: str | Path, on_bad: Callable[[str], None] | None = None) -> Iterator[Tree]:
    """Yields the trees of a file, plain or `.gz`; `-` is standard input.

    A bad tree ends where its brackets do. One that lacks a closing bracket ends before the next
    line whose first character but blanks is a "(" that stands no further right than the first one
    of the line on which the tree began.

    Args:
        path: the file.
        on_bad: is called with the message of each bad tree, which is left out.

    Raises:
        UserError: a bad tree (unless `on_bad` is given), a broken .gz file, or no tree at all;
            names the file and the line.
        OSError: the file can't be opened.
    """
    is_empty = True

    def tell(number: int, message: object) -> None:
        nonlocal is_empty
        is_empty = False
        if on_bad is None:
            raise UserError(f"{path}:{number}: {message}: correct the file")
        on_bad(f"{path}:{number}: {message}")

    with open_binary(path) as stream:
        for number, text in _bracketed(stream, tell):
            try:
                tree = parse_tree(_decode(text))
            except BadTree as error:
                tell(number, error)
            else:
                is_empty = False
                yield tree
    if is_empty:
        raise UserError(f"{path}: no trees in it; give bracketings such as (S (NN word))")


def _bracketed(
    lines: Iterable[bytes], tell: Callable[[int, object], None]
) -> Iterator[tuple[int, bytes]]:
    """Yields each text from an outermost bracket to the one that closes it, and its first line."""
    parts: list[bytes] = []
    depth = began = margin = 0
    for number, line in enumerate(lines, 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        indent = len(line) - len(line.lstrip())
        if depth and indent <= margin and line[indent : indent + 1] == b"(":
            tell(began, f"not closed before line {number} begins another tree")
            parts, depth = [], 0
        start = 0
        for found in _BRACKET.finditer(line):
            place = found.start()
            if depth:
                depth += 1 if found[0] == b"(" else -1
                if not depth:
                    yield began, b"".join([*parts, line[start : place + 1]])
                    parts, start = [], place + 1
                continue
            _check_between(number, line[start:place], tell)
            if found[0] == b"(":
                depth, began, margin, start = 1, number, indent, place
            else:
                tell(number, "a closing bracket too many")
                start = place + 1
        if depth:
            parts.append(line[start:])
        else:
            _check_between(number, line[start:], tell)
    if depth:
        tell(began, "a closing bracket is missing at the end of the file")


def _check_between(number: int, text: bytes, tell: Callable[[int, object], None]) -> None:
    """Between two trees there is only white space."""
    if text.strip():
        try:
            parse_tree(_decode(text))
        except BadTree as error:
            tell(number, error)


def _decode(text: bytes) -> str:
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadTree(f"invalid UTF-8 (byte 0x{text[error.start]:02x})") from error
    if found := _CONTROL.search(decoded):
        raise BadTree(f"control character U+{ord(found[0]):04X}: is this a text file?")
    return decoded


def to_line(tree: Iterable[Symbol]) -> str:
    """Formats a tree as a bracketing on one line, with single blanks between its parts."""
    parts: list[str] = []
    for symbol in tree:
        if isinstance(symbol, Leaf):
            parts.append(f" ({symbol.tag} {symbol.word})")
        elif isinstance(symbol, Open):
            parts.append(f" ({symbol.label}")
        else:
            parts.append(")")
    return "".join(parts)[1:]


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
    """Cleans a tree as the parsing literature does before training and scoring.

    Empty elements (tag -NONE-) are removed, with the constituents that become empty. Function
    labels, indices and gapping are removed from labels and tags (NP-SBJ-1 and NP=2 become NP). The
    root gets the same symbol in all trees. Unary chains stay, also new ones (an NP over an NP).
    No-break and thin spaces around a word, which occur in CRAFT, are removed: every tokenizer would
    drop them.

    Returns:
        The cleaned tree; None if it has no words.
    """
    kept: list[Symbol] = []
    for symbol in tree:
        if isinstance(symbol, Leaf):
            if symbol.tag != EMPTY_TAG:
                word = symbol.word.strip() or symbol.word
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
