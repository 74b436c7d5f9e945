"""Trees over several lines: an indented bracketing is the same tree."""

import random
import re

import pytest

from tests.support.random_trees import random_tree
from vaswani_plugin.text.tree_layout import pretty
from vaswani_plugin.text.trees import parse_tree, to_line

TREE = "(TOP (S (NP (DT The) (NN dog)) (VP (VBD saw) (NP (-LRB- -LRB-) (NNP $x$) (CD <&>))) (. .)))"


def test_what_fits_stays_on_a_line():
    tree = parse_tree(TREE)
    assert pretty(tree, 200) == TREE
    assert pretty(tree, 40).split("\n") == [
        "(TOP",
        "  (S",
        "    (NP (DT The) (NN dog))",
        "    (VP",
        "      (VBD saw)",
        "      (NP",
        "        (-LRB- -LRB-)",
        "        (NNP $x$)",
        "        (CD <&>)))",
        "    (. .)))",
    ]


@pytest.mark.parametrize("width", [1, 20, 60, 1000])
def test_pretty_trees_are_the_same_trees(width):
    rng = random.Random(6)
    for _ in range(200):
        tree = random_tree(rng)
        shown = pretty(tree, width)
        assert parse_tree(shown) == tree
        for line in shown.split("\n"):
            # A longer line holds one word or label alone.
            assert len(line.rstrip(")")) <= width or len(re.findall(r"\(", line)) == 1
        if len(to_line(tree)) <= width:
            assert "\n" not in shown


def test_deep_trees_are_formatted_without_recursion():
    depth = 3000
    tree = parse_tree("(S " * depth + "(NN a)" + ")" * depth)
    assert pretty(tree).count("\n") > depth - 40
