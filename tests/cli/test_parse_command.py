"""`vaswani parse`: a tree over exactly the words of each line, whatever the model."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from toy_parser import TREES, write_parser_bundle

from tests.support.commands import vaswani
from vaswani_plugin.cli import language
from vaswani_plugin.inference.parsing import Parse, ParsedSentence
from vaswani_plugin.text.linearization import linearize
from vaswani_plugin.text.trees import Tree, leaves, parse_tree

LINES = [" ".join(linearize(parse_tree(tree))[0]) for tree in TREES[:3]]
LINES += ["", "  \t ", "( na\u00efve ) bark@@ <unk> \U0001f600 10\u00a0000", "doctor"]


@pytest.fixture(scope="module", params=["bpe", "words"])
def folder(request, tmp_path_factory) -> Path:
    return write_parser_bundle(tmp_path_factory.mktemp("parser"), request.param)


@pytest.fixture
def parse(folder):
    """Runs the command on lines; returns the exit code, the output and the errors."""

    def run(lines: list[str], *flags: object, model: Path = folder) -> tuple[int, str, str]:
        text = "".join(f"{line}\n" for line in lines).encode()
        flags = ("--model", model, "--cpu", "--threads", 1, *flags)
        done = vaswani("parse", *flags, stdin=text)
        return done.code, done.out, done.err

    return run


def expected_words(line: str) -> list[str]:
    words = [word for word in line.replace("\t", " ").split(" ") if word]
    return [word.replace("(", "-LRB-").replace(")", "-RRB-") for word in words]


def words(tree: Tree) -> list[str]:
    return [leaf.word for leaf in leaves(tree)]


def test_a_tree_for_every_line(parse):
    code, plain, err = parse(LINES, "--buffer", 1, "--batch-tokens", 1)
    assert (code, err) == (0, "")
    _, out, _ = parse(LINES, "--format", "json")
    found = [json.loads(line) for line in out.split("\n")[:-1]]
    assert [entry["tree"] or "" for entry in found] == plain.split("\n")[:-1]
    assert [entry["line"] for entry in found] == list(range(1, len(LINES) + 1))
    for line, entry in zip(LINES, found, strict=True):
        if not line.strip():
            assert (entry["tree"], entry["symbols"], entry["score"]) == (None, [], None)
            continue
        tree = parse_tree(entry["tree"])
        assert words(tree) == expected_words(line)
        assert linearize(tree, True, True)[1] == entry["symbols"] and entry["score"] < 0


def test_pretty_and_drawn(parse, tmp_path):
    lines = [LINES[0], "", LINES[1]]
    _, plain, _ = parse(lines)
    code, out, _ = parse(lines, "--pretty", "--draw", tmp_path / "tree.svg")
    assert code == 0 and out.count("\n") > plain.count("\n")
    shown, expected = (re.findall(r"[()]|[^()\s]+", text, re.ASCII) for text in (out, plain))
    assert shown == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tree-3.svg", "tree.svg"]


def test_trees_too_deep_for_nltk_are_shown_on_a_line(tmp_path, capsys):
    """Python's stack has 1,000 frames; an untrained model may open more brackets."""
    line = "(S " * 3000 + "(NN a)" + ")" * 3000
    sentence = ParsedSentence(("a",), (Parse(line, -1.0, (), ()),))
    assert language._shown(1, sentence, True, "text") == line
    language._draw(7, sentence, tmp_path / "tree.svg")
    assert "line 7: the tree is too deep to draw" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_a_picture_shows_words_and_labels_as_text(tmp_path):
    line = "(TOP (S (NP (-LRB- -LRB-) (NN <&>)) (VP (VB a\u00a0b))))"
    sentence = ParsedSentence(("(", "<&>"), (Parse(line, -1.0, (), ()),))
    language._draw(1, sentence, tmp_path / "tree.svg")
    shown = {element.text for element in ElementTree.parse(tmp_path / "tree.svg").iter()}
    assert {"TOP", "S", "NP", "VP", "-LRB-", "NN", "VB", "(", "<&>", "a\u00a0b"} <= shown


def test_one_placeholder_for_all_tags(parse, tmp_path):
    _, out, _ = parse([LINES[0]], model=write_parser_bundle(tmp_path, keep_tags=False))
    tree = parse_tree(out)
    assert {leaf.tag for leaf in leaves(tree)} == {"XX"} and words(tree) == LINES[0].split()
