"""Seeded random trees, with every oddity that the reader and the linearization must keep."""

import random

from vaswani_plugin.text.trees import CLOSE, Leaf, Open, Tree

LABELS = ["S", "NP", "VP", "NP-SBJ-1", "S=2", "PP|x", "ADVP", "-X-", "", "Ünï", "a\u00a0b", "XX"]
TAGS = ["NN", "-LRB-", "-NONE-", ",", "``", "PRP$", "JJ-x", "XX", "\u2423"]
WORDS = ["the", "Xpd TTD", "-LRB-", "10\u00a0000", "\u2423", "\u242320;", "a\u2028b", "*T*-1", "XX"]


def random_tree(rng: random.Random, labels: list[str] = LABELS, leaves: int = 12) -> Tree:
    """A tree of one to `leaves` leaves: unary chains, flat and deep, inner labels not empty."""
    tree: Tree = [Open(rng.choice(labels))]
    depth, left = 1, rng.randint(1, leaves)
    inner = [label for label in labels if label]
    while depth:
        can_close = not isinstance(tree[-1], Open) and (depth > 1 or not left)
        choice = rng.random()
        if can_close and (not left or choice < 0.3):
            tree.append(CLOSE)
            depth -= 1
        elif left and choice < 0.6 and depth < 40:
            tree.append(Open(rng.choice(inner)))
            depth += 1
        else:
            tree.append(Leaf(rng.choice(TAGS), rng.choice(WORDS)))
            left -= 1
    return tree
