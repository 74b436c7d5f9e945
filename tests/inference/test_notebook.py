"""What a notebook shows of results, read back by an HTML parser."""

import numpy as np
import pytest
from lxml import html
from nltk.tree import Tree

from vaswani_plugin.figures.attention_page import Explorer, page
from vaswani_plugin.inference.attention import Attention, HeadWeights
from vaswani_plugin.inference.parsing import Parse, ParsedSentence
from vaswani_plugin.inference.texts import Hypothesis, Translation

HOSTILE = '<script>alert("1")</script> & \u0e01'


def cells(text: str) -> list[list[str]]:
    """The texts of a table's cells, row by row."""
    return [[cell.text_content() for cell in row] for row in html.fromstring(text).iter("tr")]


def test_a_translation_is_a_table_of_its_hypotheses():
    found = [Hypothesis(f"{HOSTILE}{n}", -n, (), (), ()) for n in (1, 2)]
    shown = Translation(HOSTILE, (), tuple(found))._repr_html_()
    expected = [
        ["source", "", HOSTILE],
        ["1", "-1.00", f"{HOSTILE}1"],
        ["2", "-2.00", f"{HOSTILE}2"],
    ]
    assert cells(shown) == expected
    assert "<script" not in shown


@pytest.mark.parametrize("kind", ["cross", "encoder"])
def test_attention_is_a_heat_map_of_the_last_layer(kind):
    weights = np.random.default_rng(1).dirichlet(np.ones(3), size=(2, 4, 2))  # (N, H, T, S)
    heads = HeadWeights(["a", "</s>"], ["x", HOSTILE, "</s>"], weights)
    table = html.fromstring(Attention("x", "a", {kind: heads})._repr_html_())
    assert table.xpath("//tr[1]/th//text()") == heads.keys
    for row, query, expected in zip(
        table.xpath("//tr")[1:], heads.queries, weights[1].mean(axis=0), strict=True
    ):
        assert row.xpath("th/text()") == [query]
        styles = row.xpath("td/@style")
        opacity = [float(style.rpartition(",")[2].rstrip(")")) for style in styles]
        np.testing.assert_allclose(opacity, expected, atol=5e-4)
    assert "layer 2 of 2, mean of 4 heads" in table.text_content()


def test_the_explorer_is_its_page_in_a_frame():
    heads = HeadWeights(["a", "b"], ["x", "y"], np.full((1, 2, 2, 2), 0.5))
    found = Attention(HOSTILE, "a b", {"encoder": heads})
    frame = html.fromstring(Explorer(found)._repr_html_())
    start = {"kind": "encoder", "layer": 1, "heads": [1, 2], "word": None}
    assert frame.tag == "iframe" and frame.get("srcdoc") == page(found, start)


def tree_of(cell) -> Tree:
    """The tree that a cell shows: a label above a table of parts, or a tag above a word."""
    tables = cell.findall("table")
    if not tables:
        return Tree(cell.text, [cell.find("br").tail])
    return Tree(cell.findtext("b"), [tree_of(part) for part in tables[0].find("tr")])


def test_a_tree_is_nested_tables():
    line = "(TOP (S (NP (DT the) (NN <b>&)) (VP (VBZ barks) (ADVP (RB twice)))))"
    sentence = ParsedSentence(("the", "<b>&", "barks"), (Parse(line, -1.0, (), ()),))
    shown = html.fromstring(sentence._repr_html_())
    assert tree_of(shown.find("tr/td")) == Tree.fromstring(line)
    assert ParsedSentence((), ())._repr_html_() is None
