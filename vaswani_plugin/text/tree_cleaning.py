"""Cleans trees as the parsing literature does before training and scoring.

Empty elements (tag -NONE-) are removed, with the constituents that become empty. Function labels,
indices and gapping are removed from labels and tags (NP-SBJ-1 and NP=2 become NP). The root gets
the same symbol in all trees. Unary chains stay, also new ones (an NP over an NP). No-break and thin
spaces around a word, which occur in CRAFT, are removed: every tokenizer would drop them.
"""

import re

from vaswani_plugin.text.trees import CLOSE, Leaf, Open, Symbol, Tree

EMPTY_TAG = "-NONE-"
ROOT = "TOP"
# Labels of the root in treebanks and parsers; any other label is that of a constituent below it.
ROOTS = frozenset({"", "TOP", "ROOT", "S1"})
_FUNCTIONS = re.compile(r"(?<=.)[-=].*", re.DOTALL)


def strip_functions(label: str) -> str:
    """Returns the category of a label; -LRB- and other labels that begin with a hyphen stay."""
    return label if label.startswith("-") else _FUNCTIONS.sub("", label)


def clean(tree: Tree) -> Tree | None:
    """Returns the cleaned tree; None if it has no words."""
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
