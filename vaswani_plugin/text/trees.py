"""Constituency trees as Penn-Treebank bracketings: ``(S (NP (DT the) (NN dog)) (VP (VBZ barks)))``.

A tree is the list of its symbols from left to right: `Open(label)`, `Leaf(tag, word)`, `CLOSE`.
Reading, cleaning, linearizing and writing each pass over that list once, without recursion, so the
depth of a tree has no limit.

The reader accepts the forms that treebanks use: one tree a line, several trees a line, or trees
over several lines (a new tree starts at a "(" in the first column, or after the previous tree has
ended); roots without a label; words with blanks in them. White space is that of ASCII: a no-break
space is part of its word.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from vaswani_plugin.text.corpus_io import open_binary
from vaswani_plugin.text.messages import InputError


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
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


class BadTree(ValueError):
    """Error: a text is no tree; the message gives the reason."""


class _Reader:
    """Builds a tree from tokens, one by one; `take` returns the tree when it is complete."""

    def __init__(self) -> None:
        self.tree: Tree = []
        self._depth = 0
        # The tokens between an opening bracket and the next bracket: its label, then words.
        self._pending: list[str] | None = None

    def take(self, token: str) -> Tree | None:
        """Adds a token; returns the tree if it is complete, else None; raises BadTree."""
        if token == "(":
            self._open_pending()
            self._pending = []
        elif token == ")":
            return self._close()
        elif self._pending is not None:
            self._pending.append(token)
        elif self._depth:
            raise BadTree(f"{token!r} stands beside brackets, not in one of its own")
        else:
            raise BadTree(f"{token[:20]!r} stands outside of brackets")
        return None

    def is_inside(self) -> bool:
        """Whether a tree has begun and not ended."""
        return self._depth > 0 or self._pending is not None

    def _open_pending(self) -> None:
        if self._pending is None:
            return
        if len(self._pending) > 1:
            raise BadTree(f"{self._pending[1]!r} stands beside brackets, not in one of its own")
        if not self._pending and self._depth:
            raise BadTree("a bracket inside of the tree has no label")
        self.tree.append(Open(self._pending[0] if self._pending else ""))
        self._depth += 1

    def _close(self) -> Tree | None:
        if self._pending is None:
            if not self._depth:
                raise BadTree("a closing bracket too many")
            self.tree.append(CLOSE)
            self._depth -= 1
        else:
            if len(self._pending) < 2:
                raise BadTree(f"the bracket '({''.join(self._pending)})' holds nothing")
            self.tree.append(Leaf(self._pending[0], " ".join(self._pending[1:])))
            self._pending = None
        if self._depth:
            return None
        tree, self.tree = self.tree, []
        return tree


def parse_tree(text: str) -> Tree:
    """Parses a text that holds exactly one tree.

    Raises:
        BadTree: the text holds no tree, more than one, or something else.
    """
    reader = _Reader()
    trees = [tree for token in _TOKEN.findall(text) if (tree := reader.take(token))]
    if reader.is_inside():
        raise BadTree("a closing bracket is missing")
    if len(trees) != 1:
        raise BadTree(f"one tree expected, {len(trees)} found")
    return trees[0]


def read_trees(path: str | Path, on_bad: Callable[[str], None] | None = None) -> Iterator[Tree]:
    """Yields the trees of a file, plain or `.gz`; `-` is standard input.

    Args:
        path: the file.
        on_bad: is called with the message of each bad tree. The tree is left out, and reading
            continues at the next line that begins with "(".

    Raises:
        InputError: a bad tree (unless `on_bad` is given), a broken .gz file, or no tree at all;
            names the file and the line.
        OSError: the file can't be opened.
    """
    count = bad = 0

    def tell(message: str) -> None:
        nonlocal bad
        bad += 1
        if on_bad is None:
            raise InputError(f"{message}: correct the file")
        on_bad(message)

    with open_binary(path) as stream:
        for tree in _trees(stream, str(path), tell):
            count += 1
            yield tree
    if not count and not bad:
        raise InputError(f"{path}: no trees in it; give bracketings such as (S (NN word))")


def _trees(lines: Iterable[bytes], name: str, tell: Callable[[str], None]) -> Iterator[Tree]:
    reader, began, skipping = _Reader(), 0, False
    for number, line in enumerate(lines, 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if line.startswith(b"("):
            if reader.is_inside():
                tell(f"{name}:{began}: not closed before line {number} begins another tree")
                reader = _Reader()
            skipping = False
        if skipping:
            continue
        try:
            for token in _TOKEN.findall(_decode(line)):
                if not reader.is_inside():
                    began = number
                if tree := reader.take(token):
                    yield tree
        except BadTree as error:
            tell(f"{name}:{number}: {error}")
            reader, skipping = _Reader(), True
    if reader.is_inside():
        tell(f"{name}:{began}: a closing bracket is missing at the end of the file")


def _decode(line: bytes) -> str:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadTree(f"invalid UTF-8 (byte 0x{line[error.start]:02x})") from error
    if found := _CONTROL.search(text):
        raise BadTree(f"control character U+{ord(found[0]):04X}: is this a text file?")
    return text


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


def escape_brackets(word: str) -> str:
    """Writes a word of running text as in treebanks: "(" as -LRB-, ")" as -RRB-."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def unescape_brackets(word: str) -> str:
    """Undoes `escape_brackets`, for display."""
    return word.replace("-LRB-", "(").replace("-RRB-", ")")
