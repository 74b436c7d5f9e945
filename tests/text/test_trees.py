"""Bracketings as nltk's Tree reads them, as sequences by a grammar, and the script trees.py."""

import gzip
import os
import random
import re
import shutil
from itertools import product
from pathlib import Path

import pytest
from nltk.tree import Tree as NltkTree

from tests.support.random_trees import random_tree
from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.errors import UserError
from vaswani_plugin.text import linearization
from vaswani_plugin.text.trees import (
    CLOSE,
    BadTree,
    Leaf,
    Open,
    Tree,
    clean,
    nltk_tree,
    parse_tree,
    read_trees,
    to_line,
)

DATA = Path(os.environ.get("VASWANI_DATA", "unset-VASWANI_DATA"))
REAL = [f"craft-treebank/{part}.mrg.gz" for part in ("train", "valid", "test")]
REAL += [f"gum-treebank/{part}.ptb.gz" for part in ("train", "valid", "test")]
REAL += ["evalb/craft-valid-perturbed/gold.txt", "evalb/bug/bug.gld", "evalb/sample/sample.gld"]

PRETTY = """\
( (S
    (NP-SBJ-1 (DT The) (NN dog))
    (VP (VBZ barks)
      (NP (-NONE- *T*-1)))
    (. .)) )

( (S (NP=2 (-NONE- *)) (VP (VB Run))) ) ( (FRAG (NN
  Xpd   TTD)) )
"""


def read_text(text: str | bytes, folder: Path) -> list[Tree]:
    path = folder / "trees.mrg"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(read_trees(path))


def test_reads_pretty_printed_trees_and_several_on_a_line(tmp_path):
    first, second, third = read_text(PRETTY, tmp_path)
    assert first == [
        *(Open(""), Open("S"), Open("NP-SBJ-1"), Leaf("DT", "The"), Leaf("NN", "dog"), CLOSE),
        *(Open("VP"), Leaf("VBZ", "barks"), Open("NP"), Leaf("-NONE-", "*T*-1"), CLOSE, CLOSE),
        *(Leaf(".", "."), CLOSE, CLOSE),
    ]
    assert to_line(second) == "( (S (NP=2 (-NONE- *)) (VP (VB Run))))"
    assert third == [Open(""), Open("FRAG"), Leaf("NN", "Xpd TTD"), CLOSE, CLOSE]


def test_random_trees_are_read_as_nltk_reads_them():
    rng = random.Random(1)
    plain = ["S", "NP", "VP-X", "a|b"]
    for _ in range(500):
        tree = random_tree(rng, plain)
        line = to_line(tree)
        assert parse_tree(line) == tree
        assert parse_tree(nltk_tree(tree).pformat(margin=rng.choice([5, 40, 200]))) == tree
        # nltk takes each blank-separated part of a word for a leaf of its own.
        words = " ".join(nltk_tree(tree).leaves())
        assert NltkTree.fromstring(line).leaves() == re.split(r"\s+", words)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("(S (NN a))\n(S (NP (NN b))\n(S (NN c))\n", 2, "closing bracket is missing .line 3."),
        ("( (S (NN a)) )\n( (S (NN b))\n( (S (NN c)) )\n", 2, "no label .line 3."),
        ("(S (NN a)))\n", 1, "stands outside"),
        ("(S (NP) (NN a))\n", 1, "holds nothing"),
        ("(S (NP the (NN dog)))\n", 1, "'the' stands beside brackets"),
        ("\n\nhello\n", 3, "'hello' stands outside"),
    ],
)
def test_bad_trees_are_named_with_file_and_line(text, line, reason, tmp_path):
    with pytest.raises(UserError, match=rf"trees\.mrg:{line}: .*{reason}.*: correct") as error:
        read_text(text, tmp_path)
    assert "\n" not in str(error.value)


def test_a_word_alone_and_what_is_not_seen_of_it():
    spaces = ("a", "a"), ("\u2009a\u00a0b\u00a0", "a\u00a0b")
    for raw, expected in (*spaces, ("\ufeff a\xadbe\u0301", "ab\u00e9")):
        assert to_line(clean(parse_tree(f"(NN {raw})"))) == f"(TOP (NN {expected}))"
    assert clean(parse_tree("(NN \xad)")) is None


def reference_clean(tree: NltkTree) -> NltkTree | None:
    """Cleaning by recursion, on nltk's trees."""

    def category(label: str) -> str:
        return label if label[:1] == "-" else re.split("(?<=.)[-=]", label)[0]

    if isinstance(tree[0], str):
        return None if tree.label() == "-NONE-" else NltkTree(category(tree.label()), [*tree])
    children = [kept for child in tree if (kept := reference_clean(child)) is not None]
    return NltkTree(category(tree.label()), children) if children else None


def test_random_trees_are_cleaned_as_by_recursion():
    rng = random.Random(2)
    dropped = 0
    for _ in range(1000):
        tree = random_tree(rng, leaves=5)
        expected = reference_clean(nltk_tree(tree))
        got = clean(tree)
        if expected is None:
            assert got is None
            dropped += 1
            continue
        root = "TOP" if expected.label() == "" else expected.label()
        if root != "TOP":
            expected = NltkTree("TOP", [expected])
        expected.set_label("TOP")
        assert nltk_tree(got) == expected
    assert 0 < dropped < 500


def test_deep_trees_need_no_recursion():
    depth = 100_000
    line = "(S " * depth + "(NN a)" + ")" * depth
    tree = parse_tree(line)
    assert to_line(tree) == line
    assert len(clean(tree)) == 2 * depth + 3


def make_wsj(folder: Path) -> None:
    for section in range(25):
        place = folder / "parsed" / "mrg" / "wsj" / f"{section:02}"
        place.mkdir(parents=True)
        for part in (1, 0):
            word = f"w{section:02}{part}"
            (place / f"wsj_{section:02}{part:02}.mrg").write_text(f"\n( (S-X\n  (NN {word})) )\n")


def test_wall_street_journal_split(tmp_path):
    make_wsj(tmp_path / "ptb")
    done = run_script("data-prep/trees.py", "split", tmp_path / "ptb", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    numbers = {
        split: re.findall(r"^\(TOP \(S \(NN w(\d+)\)\)\)$", path.read_text(), re.MULTILINE)
        for split in ("train", "valid", "test")
        for path in [tmp_path / "out" / f"{split}.trees"]
    }
    assert numbers["valid"] == ["220", "221"] and numbers["test"] == ["230", "231"]
    assert numbers["train"] == [f"{s:02}{p}" for s in range(2, 22) for p in (0, 1)]
    shutil.rmtree(tmp_path / "ptb" / "parsed" / "mrg" / "wsj" / "02")
    done = run_script("data-prep/trees.py", "split", tmp_path / "ptb", "--output", tmp_path / "new")
    assert_one_line_error(done, "no .mrg files of section 02")
    assert not (tmp_path / "new").exists()


def test_script_cleans_and_linearizes(tmp_path):
    path, output = tmp_path / "a.mrg", tmp_path / "out.trees"
    path.write_text("( (S (NN a)) )\n( (S (-NONE- *)) )\n( (NP-X (NN Xpd TTD)\n (NN c)) )\n")
    done = run_script("data-prep/trees.py", "clean", path, "--output", output)
    assert output.read_text() == "(TOP (S (NN a)))\n(TOP (NP (NN Xpd TTD) (NN c)))\n"
    assert "2 trees, 1 without words left out" in done.stderr
    flags = ("--source", tmp_path / "words", "--target", tmp_path / "symbols")
    done = run_script("data-prep/trees.py", "linearize", output, *flags)
    assert (tmp_path / "words").read_text() == "a\nXpd\u242320;TTD c\n"
    assert (tmp_path / "symbols").read_text() == "(TOP (S XX ) )\n(TOP (NP XX XX ) )\n"
    for name in ("words", "symbols"):
        (tmp_path / name).unlink()
    output.write_text("(NN a)\n")
    done = run_script("data-prep/trees.py", "linearize", output, *flags)
    assert_one_line_error(done, "out.trees: (NN a): a word without a constituent")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mrg", "out.trees"]


# As sequences: there and back, and which sequences are well-formed.


def without_tags(tree: Tree) -> Tree:
    return [Leaf("XX", s.word) if isinstance(s, Leaf) else s for s in tree]


def check_there_and_back(tree: Tree) -> None:
    for keep_tags, label_closings in ((False, False), (False, True), (True, True)):
        words, symbols = linearization.linearize(tree, keep_tags, label_closings)
        # As lines of a file, and as any tokenizer splits them.
        words, symbols = " ".join(words).split(), " ".join(symbols).split()
        assert linearization.restore(symbols, words) == (tree if keep_tags else without_tags(tree))


def test_random_trees_come_back():
    tagged = linearization.linearize(parse_tree("(TOP (NP (DT the) (NN dog)))"), True, True)[1]
    assert tagged == "(TOP (NP DT NN )NP )TOP".split()
    rng = random.Random(4)
    for _ in range(2000):
        check_there_and_back(random_tree(rng))


def test_white_space_in_words():
    assert linearization.escape_space("Xpd TTD") == "Xpd\u242320;TTD"
    assert linearization.unescape_space("a\u242320;b\u2423a0;c\u24232423;") == "a b\u00a0c\u2423"
    for number in ("110000", "d800", "41", "ffffffffff"):  # only what was escaped
        assert linearization.unescape_space(f"a\u2423{number};b") == f"a\u2423{number};b"


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
                    linearization.restore([names[kind] for kind in kinds], ["w"] * words)
                except BadTree:
                    assert not expected, kinds
                else:
                    assert expected, kinds
    assert good > 10
    with pytest.raises(BadTree, match=r"symbol 3, \)NP: closes \(S"):
        linearization.restore("(S XX )NP".split(), ["w"])


@pytest.mark.shared_data
@pytest.mark.parametrize("name", REAL)
def test_real_treebanks_come_back_and_are_cleaned_as_by_another_hand(name):
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"NOT TESTED: no {path} (set VASWANI_DATA to the folder of corpora)")
    trees = list(read_trees(path))
    for tree in trees:
        check_there_and_back(tree)
        opened = "".join("o" if isinstance(symbol, Open) else " " for symbol in tree)
        assert max(map(len, opened.split())) <= linearization.MAX_OPENINGS
        assert parse_tree(to_line(tree)) == tree
    cleaned = path.with_name(path.name.split(".")[0] + ".clean.gz")
    if cleaned.is_file():
        lines = [to_line(kept) for tree in trees if (kept := clean(tree))]
        expected = gzip.decompress(cleaned.read_bytes()).decode("utf-8")
        assert "".join(f"{line}\n" for line in lines) == expected
