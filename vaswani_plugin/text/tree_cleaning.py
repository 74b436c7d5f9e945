"""Cleans trees as the parsing literature does before training and scoring.

Empty elements (tag -NONE-) go, and with them the constituents that they leave empty; labels and
tags lose function labels, indices and gapping (NP-SBJ-1 and NP=2 become NP); the root bears one
symbol. Unary chains stay, also those that this makes (an NP over an NP). No-break and thin spaces
around a word, as CRAFT has them, go too: every tokenizer would lose them.
"""

import re

from vaswani_plugin.text.trees import CLOSE, Leaf, Open, Symbol, Tree

EMPTY_TAG = "-NONE-"
ROOT = "TOP"
# What treebanks and parsers call the root; any other label is that of a constituent below it.
ROOTS = frozenset({"", "TOP", "ROOT", "S1"})
_FUNCTIONS = re.compile(r"(?<=.)[-=].*", re.DOTALL)


def strip_functions(label: str) -> str:
    """The category alone; -LRB- and others that begin with a hyphen stay as they are."""
    return label if label.startswith("-") else _FUNCTIONS.sub("", label)


def clean(tree: Tree) -> Tree | None:
    """The cleaned tree; None if it has no words."""
    kept: list[Symbol] = []
    for symbol in tree:
        if isinstance(symbol, Leaf):
            if symbol.tag != EMPTY_TAG:
                word = symbol.word.strip() or symbol.word
                kept.append(Leaf(strip_functions(symbol.tag), word))
        elif isinstance(symbol, Open):
            kept.append(Open(strip_functions(symbol.label)))
        elif isinstance(kept[-1], Open):  # a closing bracket: nothing is left within it
            kept.pop()
        else:
            kept.append(CLOSE)
    if not kept:
        return None
    if isinstance(kept[0], Open) and kept[0].label in ROOTS:
        return [Open(ROOT), *kept[1:]]
    return [Open(ROOT), *kept, CLOSE]
