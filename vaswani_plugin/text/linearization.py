"""Trees as sequences, for a model that reads words and writes symbols (Vinyals et al., 2015).

The tree ``(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks))))`` becomes two lines of equal meaning::

    source   the dog barks
    target   (TOP (S (NP XX XX ) (VP XX ) ) )

Target symbols, separated by blanks:

- ``(LABEL`` opens a constituent;
- a placeholder stands for the next word: ``XX``, or by option its tag, such as ``DT``;
- ``)`` closes the innermost constituent; by option ``)LABEL``, with the label of the constituent.

The first character tells the kind of a symbol: "(" opens, ")" closes, anything else is a
placeholder (labels and tags hold no brackets).

A sequence is **well-formed** for n words when

1. its first symbol opens the root, and only the last symbol closes the root;
2. it has exactly n placeholders, all within the root;
3. no constituent is closed before it holds a placeholder or a closed constituent;
4. a labelled closing symbol has the label of the constituent that it closes.

Only openings can make such a sequence endless. A search therefore allows at most `MAX_OPENINGS`
openings in a row; then a placeholder must follow. So n words take at most
``n * (2 * MAX_OPENINGS + 1)`` symbols, and a prefix with `depth` open brackets and r remaining
words can be completed in ``depth + r`` symbols.

White space within a word or a label would split it (such as "Xpd TTD"). It is escaped as
``\u2423``, its hexadecimal number and ``;``, here ``Xpd\u242320;TTD``.

The words become units of the model in one of two codings; the symbols have a dictionary of their
own::

    words     one unit for each word; rare and new words are <unk>.
    bpe       byte-pair encoding of the words' UTF-8 bytes (coding.py): there are no unknown units.

In both a unit without the joint @@ at its end ends a word. The search counts the words of a source
by this rule.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from vaswani_plugin.text.coding import UNKNOWN, make_coding
from vaswani_plugin.text.dictionary import SPECIAL_SYMBOLS
from vaswani_plugin.text.raw_text import canonical, composed
from vaswani_plugin.text.trees import CLOSE, BadTree, Leaf, Open, Tree, escape_brackets

JOINT = "@@"

PLACEHOLDER = "XX"
# CRAFT and GUM have at most 9 in a row, with empty elements.
MAX_OPENINGS = 20

_SPACE = re.compile(r"[\s\u2423]")
_ESCAPE = re.compile(r"\u2423([0-9a-f]{1,5});")


def escape_space(text: str) -> str:
    """Escapes the white space in a word or a label."""
    return _SPACE.sub(lambda match: f"\u2423{ord(match[0]):x};", text)


def unescape_space(text: str) -> str:
    """Undoes `escape_space`; an escape of any other character stays as it is."""

    def character(match: re.Match[str]) -> str:
        space = chr(int(match[1], 16))
        return space if _SPACE.fullmatch(space) else match[0]

    return _ESCAPE.sub(character, text)


def linearize(
    tree: Tree, keep_tags: bool = False, label_closings: bool = False
) -> tuple[list[str], list[str]]:
    """Returns the words of a cleaned tree, and its symbols; a word alone is a BadTree.

    `keep_tags`: the placeholder of a word is its tag. `label_closings`: a closing is ``)LABEL``.
    """
    if not isinstance(tree[0], Open):
        raise BadTree("a word without a constituent round it; clean the tree first")
    words, symbols, labels = [], [], []
    for symbol in tree:
        if isinstance(symbol, Leaf):
            words.append(escape_space(composed(symbol.word)))
            symbols.append(escape_space(symbol.tag) if keep_tags else PLACEHOLDER)
        elif isinstance(symbol, Open):
            labels.append(escape_space(symbol.label))
            symbols.append(f"({labels[-1]}")
        else:
            label = labels.pop()
            symbols.append(f"){label}" if label_closings else ")")
    return words, symbols


def restore(symbols: Iterable[str], words: Sequence[str]) -> Tree:
    """Makes the tree of a well-formed sequence, the inverse of `linearize`; BadTree for any other.

    Closings may be labelled or not. The placeholders become the words' tags.
    """
    tree: Tree = []
    labels: list[str] = []
    count = 0
    for position, symbol in enumerate(symbols, 1):
        if tree and not labels:
            raise BadTree(f"symbol {position}, {symbol}: the root is closed already")
        if symbol.startswith("("):
            labels.append(symbol[1:])
            tree.append(Open(unescape_space(labels[-1])))
        elif not labels:
            raise BadTree(f"symbol {position}, {symbol}: no bracket is open")
        elif symbol.startswith(")"):
            label = labels.pop()
            if isinstance(tree[-1], Open):
                raise BadTree(f"symbol {position}, {symbol}: the constituent ({label} is empty")
            if symbol not in (")", f"){label}"):
                raise BadTree(f"symbol {position}, {symbol}: closes ({label}")
            tree.append(CLOSE)
        else:
            if count == len(words):
                raise BadTree(f"symbol {position}, {symbol}: a placeholder without a word")
            tree.append(Leaf(unescape_space(symbol), unescape_space(words[count])))
            count += 1
    if labels or not tree:
        raise BadTree(f"{len(labels)} brackets are not closed" if labels else "no symbols")
    if count < len(words):
        raise BadTree(f"{count} placeholders for {len(words)} words")
    return tree


def words_of(line: str) -> list[str]:
    """Splits a tokenized line into words as treebanks write them: ( is -LRB-.

    A word may hold white space in the form that `escape_space` gives it. A no-break space inside
    is part of its word, as in treebanks.
    """
    units = re.split("[ \t\n\v\f\r]", canonical(line))  # where a tree's text is split
    words = (unescape_space(escape_brackets(unit)).strip() for unit in units)
    return [escape_space(word) for word in words if word]


def make_word_coding(coding: str, codes: str | None) -> Callable[[Sequence[str]], str]:
    """Returns the function from words to units joined by blanks; as `make_coding`, of two kinds."""
    if coding == "bpe":
        encode, _ = make_coding("bpe", codes)
        return lambda words: encode(" ".join(words))

    def whole(word: str) -> str:
        return UNKNOWN if word in SPECIAL_SYMBOLS or word.endswith(JOINT) else word

    return lambda words: " ".join(map(whole, words))
