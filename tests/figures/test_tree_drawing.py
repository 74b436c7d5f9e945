"""Pictures of trees: their parts don't overlap."""

import random
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.random_trees import random_tree
from vaswani_plugin.figures.tree_drawing import Node, draw_tree, layout
from vaswani_plugin.text.trees import Leaf, Open, parse_tree

TREE = "(TOP (S (NP (DT The) (NN dog)) (VP (VBD saw) (NP (-LRB- -LRB-) (NNP $x$) (CD <&>))) (. .)))"


def test_deep_trees_are_drawn_without_recursion():
    depth = 3000
    tree = parse_tree("(S " * depth + "(NN a)" + ")" * depth)
    assert layout(tree)[-1].row == depth


def strips(nodes: list[Node]) -> list[tuple[float, float]]:
    return [(node.left, node.left + node.width) for node in nodes]


def test_each_part_of_a_picture_has_its_own_place():
    rng = random.Random(7)
    for _ in range(300):
        tree = random_tree(rng)
        nodes = layout(tree)
        assert [node.symbol for node in nodes] == [s for s in tree if isinstance(s, Open | Leaf)]
        words = [node for node in nodes if isinstance(node.symbol, Leaf)]
        assert len({node.row for node in words}) == 1
        for row in {node.row for node in nodes}:
            for (_, right), (left, _) in pairwise(strips([n for n in nodes if n.row == row])):
                assert right <= left + 1e-9
        for node in nodes:
            for left, right in strips(node.children):
                assert node.left - 1e-9 <= left < right <= node.left + node.width + 1e-9
            assert all(child.row > node.row for child in node.children)
            # As in the font, 0.6 of its size a letter.
            assert node.width > max(map(len, node.texts)) * 0.6 * 11 / 72


def test_svg_holds_every_label_and_word_as_text(tmp_path):
    draw_tree(parse_tree(TREE), tmp_path / "tree.svg")
    texts = [element.text for element in ElementTree.parse(tmp_path / "tree.svg").iter()]
    shown = [text for text in texts if text and text.strip()]
    for part in ("TOP", "NP", "VP", "DT", "The", "dog", "$x$", "<&>", "(", "-LRB-"):
        assert part in shown
    assert shown.count("NP") == 2


def test_png_shows_text_where_the_layout_puts_it(tmp_path):
    from matplotlib.image import imread

    tree = parse_tree("(S (NP (NN aaaaaaaaaa)) (VP (VB b)))")
    draw_tree(tree, tmp_path / "tree.png")
    picture = imread(tmp_path / "tree.png")[..., :3]
    nodes = layout(tree)
    # Above, the root's label alone: dark pixels around the middle of its strip.
    top = picture[: picture.shape[0] // 8].min(axis=(0, 2)) < 0.5
    dark = [x / 150 for x in range(len(top)) if top[x]]
    assert dark and abs(sum(dark) / len(dark) - 0.06 - nodes[0].x) < 0.1


def test_pictures_too_large_for_pixels(tmp_path):
    tree = parse_tree("(S " + "(NN " + "w" * 5000 + ")" + ")")
    with pytest.raises(ValueError, match=r"tree\.png: the tree is too large .* \.svg"):
        draw_tree(tree, tmp_path / "tree.png")
    draw_tree(tree, tmp_path / "tree.svg")
    assert list(tmp_path.iterdir()) == [Path(tmp_path, "tree.svg")]
