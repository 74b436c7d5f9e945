"""A baseline for parsers: a PCFG that nltk reads from a treebank, with CKY for its best trees.

Trees are made binary (nltk's Chomsky normal form, horizontal Markov order 1), and a chain of unary
rules becomes one label, so that the grammar has only binary rules and tags. The input is gold tags,
without words.

Axes: K split points of a span, R binary rules, N symbols.
"""

from collections.abc import Iterable

import numpy as np
from nltk import Tree as NltkTree
from nltk import induce_pcfg
from nltk.grammar import Nonterminal

from vaswani_plugin.text.trees import CLOSE, Leaf, Open, Tree

START = "<start>"


def to_nltk(tree: Tree) -> NltkTree:
    """Converts a tree to nltk's class, with the tags as words."""
    root = NltkTree(START, [])
    stack = [root]
    for symbol in tree:
        if isinstance(symbol, Leaf):
            stack[-1].append(NltkTree(symbol.tag, [symbol.tag]))
        elif isinstance(symbol, Open):
            stack[-1].append(NltkTree(symbol.label, []))
            stack.append(stack[-1][-1])
        else:
            stack.pop()
    return root[0]


def from_nltk(tree: NltkTree, leaves: list[Leaf]) -> Tree:
    """Undoes `to_nltk`, with the words of `leaves`."""
    words = iter(leaves)
    found: Tree = []
    left = [tree]
    while left:
        node = left.pop()
        if node is CLOSE:
            found.append(CLOSE)
        elif isinstance(node[0], NltkTree):
            found.append(Open(node.label()))
            left += [CLOSE, *reversed(node)]
        else:
            found.append(next(words))
    return found


class Pcfg:
    """The PCFG of a treebank.

    Args:
        trees: cleaned trees; all have the same root label.
    """

    def __init__(self, trees: Iterable[Tree]) -> None:
        productions = []
        for tree in map(to_nltk, trees):
            tree.collapse_unary(collapsePOS=True, collapseRoot=True)
            tree.chomsky_normal_form(horzMarkov=1)
            productions += NltkTree(START, [tree]).productions()
        grammar = induce_pcfg(Nonterminal(START), productions)
        self.tags: dict[str, list[tuple[int, float]]] = {}
        self.starts: list[tuple[int, float]] = []
        self.numbers: dict[str, int] = {}
        binary = []
        for rule in grammar.productions():
            log_p, own = rule.logprob(), str(rule.lhs())
            if len(rule.rhs()) == 2:
                binary.append((*map(self._number, (own, *map(str, rule.rhs()))), log_p))
            elif own == START:
                self.starts.append((self._number(str(rule.rhs()[0])), log_p))
            else:
                self.tags.setdefault(rule.rhs()[0], []).append((self._number(own), log_p))
        binary.sort()
        rows = np.array(binary, dtype=np.float64).reshape(-1, 4)
        self.parent, self.left, self.right = rows[:, :3].astype(np.intp).T
        self.log_p = rows[:, 3].astype(np.float32)
        self.parents, self.first_rule = np.unique(self.parent, return_index=True)
        self.names = list(self.numbers)

    def _number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def parse(self, leaves: list[Leaf]) -> Tree | None:
        """Returns the most probable tree over these words; None if the grammar has none."""
        count = len(leaves)
        chart = np.full((count, count + 1, len(self.names)), -np.inf, dtype=np.float32)
        for place, leaf in enumerate(leaves):
            for number, log_p in self.tags.get(leaf.tag, []):
                chart[place, place + 1, number] = log_p
        for length in range(2, count + 1):
            for begin in range(count - length + 1):
                best = self._scores(chart, begin, begin + length, slice(None)).max(axis=0)
                found = np.maximum.reduceat(best, self.first_rule)
                chart[begin, begin + length, self.parents] = found
        totals = [(chart[0, count, number] + log_p, number) for number, log_p in self.starts]
        total, start = max(totals)
        if not np.isfinite(total):
            return None
        tree = self._trace(chart, 0, count, start, leaves)
        tree.un_chomsky_normal_form()
        return from_nltk(tree, leaves)

    def _scores(self, chart: np.ndarray, begin: int, end: int, rules: slice) -> np.ndarray:
        """log P of a span for every split point and every rule, (K, R)."""
        left = chart[begin, begin + 1 : end][:, self.left[rules]]
        right = chart[begin + 1 : end, end][:, self.right[rules]]
        return left + right + self.log_p[rules]

    def _trace(
        self, chart: np.ndarray, begin: int, end: int, own: int, leaves: list[Leaf]
    ) -> NltkTree:
        if end == begin + 1:
            return NltkTree(self.names[own], [leaves[begin].tag])
        rules = slice(*np.searchsorted(self.parent, [own, own + 1]))
        scores = self._scores(chart, begin, end, rules)
        place, rule = np.unravel_index(scores.argmax(), scores.shape)
        middle, rule = begin + 1 + int(place), rules.start + int(rule)
        children = [
            self._trace(chart, begin, middle, self.left[rule], leaves),
            self._trace(chart, middle, end, self.right[rule], leaves),
        ]
        return NltkTree(self.names[own], children)
