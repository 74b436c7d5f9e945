"""Trees as sequences: there and back, and which sequences are well-formed.

Reference: the grammar applied as rewriting of a string, to all sequences up to a length.
"""

import os
import random
import re
from itertools import product
from pathlib import Path

import pytest

from tests.support.random_trees import random_tree
from vaswani_plugin.text.linearization import (
    MAX_OPENINGS,
    escape_space,
    linearize,
    restore,
    unescape_space,
)
from vaswani_plugin.text.trees import (
    BadTree,
    Leaf,
    Open,
    Tree,
    leaves,
    parse_tree,
    read_trees,
    to_line,
)

DATA = Path(os.environ.get("VASWANI_DATA", "unset-VASWANI_DATA"))
TREE = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks))))"


def without_tags(tree: Tree) -> Tree:
    return [Leaf("XX", s.word) if isinstance(s, Leaf) else s for s in tree]


def check_there_and_back(tree: Tree) -> None:
    for keep_tags, label_closings in ((False, False), (False, True), (True, True)):
        words, symbols = linearize(tree, keep_tags, label_closings)
        # As lines of a file, and as any tokenizer splits them.
        words, symbols = " ".join(words).split(), " ".join(symbols).split()
        expected = tree if keep_tags else without_tags(tree)
        assert restore(symbols, words) == expected
        assert restore(symbols, words, [leaf.tag for leaf in leaves(tree)]) == tree


def test_the_sequences_of_a_tree():
    words, symbols = linearize(parse_tree(TREE))
    assert words == ["the", "dog", "barks"]
    assert " ".join(symbols) == "(TOP (S (NP XX XX ) (VP XX ) ) )"
    tagged = linearize(parse_tree(TREE), keep_tags=True, label_closings=True)[1]
    assert " ".join(tagged) == "(TOP (S (NP DT NN )NP (VP VBZ )VP )S )TOP"


def test_random_trees_come_back():
    rng = random.Random(4)
    for _ in range(2000):
        check_there_and_back(random_tree(rng))


def test_white_space_in_words():
    assert escape_space("Xpd TTD") == "Xpd\u242320;TTD"
    for text in ("a b", "\u2423", "\u242320;", "\u2028\u00a0\x1c", "a\u24237", ""):
        escaped = escape_space(text)
        assert len(f"x{escaped}x".split()) == 1 and not re.search(r"\s", escaped)
        assert unescape_space(escaped) == text


def is_well_formed(kinds: str, words: int) -> bool:
    """o opens, c closes, x is a placeholder: rewrite each innermost constituent into t."""
    rewritten, before = kinds, None
    while rewritten != before:
        before, rewritten = rewritten, re.sub("o[xt]+c", "t", rewritten)
    return rewritten == "t" and kinds.count("x") == words


def test_all_short_sequences_are_judged_by_the_grammar():
    names = {"o": "(A", "c": ")", "x": "XX"}
    good = 0
    for length in range(9):
        for kinds in map("".join, product("ocx", repeat=length)):
            for words in (1, 2, 3):
                expected = is_well_formed(kinds, words)
                good += expected
                try:
                    restore([names[kind] for kind in kinds], ["w"] * words)
                except BadTree:
                    assert not expected, kinds
                else:
                    assert expected, kinds
    assert good > 10
    with pytest.raises(BadTree, match=r"symbol 3, \)NP: closes \(S"):
        restore("(S XX )NP".split(), ["w"])


def test_a_bare_word_has_no_sequence():
    with pytest.raises(BadTree, match="clean the tree first"):
        linearize([Leaf("NN", "a")])


@pytest.mark.shared_data
@pytest.mark.parametrize(
    "name",
    [
        *(f"craft-treebank/{part}.mrg.gz" for part in ("train", "valid", "test")),
        *(f"gum-treebank/{part}.ptb.gz" for part in ("train", "valid", "test")),
        *("evalb/craft-valid-perturbed/gold.txt", "evalb/bug/bug.gld", "evalb/sample/sample.gld"),
    ],
)
def test_real_treebanks_come_back(name):
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"NOT TESTED: no {path} (set VASWANI_DATA to the folder of corpora)")
    for tree in read_trees(path):
        check_there_and_back(tree)
        opened = "".join("o" if isinstance(symbol, Open) else " " for symbol in tree)
        assert max(map(len, opened.split())) <= MAX_OPENINGS
        assert parse_tree(to_line(tree)) == tree


@pytest.mark.parametrize("number", ["110000", "d800", "41", "0", "ffffffffff"])
def test_only_what_was_escaped_is_unescaped(number):
    text = f"a\u2423{number};b"
    assert unescape_space(text) == text
    assert unescape_space("a\u242320;b\u2423a0;c\u24232423;") == "a b\u00a0c\u2423"
