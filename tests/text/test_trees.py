"""Reading, cleaning and writing of bracketings, and the script trees.py; reference: nltk's Tree."""

import gzip
import os
import random
import re
from pathlib import Path

import pytest
import trees as script
from nltk.tree import Tree as NltkTree

from tests.support.random_trees import random_tree
from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.errors import UserError
from vaswani_plugin.text.trees import (
    CLOSE,
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
ORIGINALS = [f"craft-treebank/{part}.mrg.gz" for part in ("valid", "test")]
ORIGINALS += [f"gum-treebank/{part}.ptb.gz" for part in ("valid", "test")]

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
        pretty = nltk_tree(tree).pformat(margin=rng.choice([5, 40, 200]))
        assert parse_tree(pretty) == tree
        # nltk takes each blank-separated part of a word for a leaf of its own.
        assert NltkTree.fromstring(line).leaves() == re.split(
            r"\s+", " ".join(nltk_tree(tree).leaves())
        )


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("(S (NN a))\n(S (NP (NN b))\n(S (NN c))\n", 2, "closing bracket is missing .line 3."),
        ("( (S (NN a)) )\n( (S (NN b))\n( (S (NN c)) )\n", 2, "no label .line 3."),
        ("(\n(S (NN a))\n", 1, "closing bracket is missing .line 2."),
        ("(S (NN a)))\n", 1, "stands outside"),
        ("(S (NN a))\n)\n", 2, "stands outside"),
        ("(S (NP) (NN a))\n", 1, "holds nothing"),
        ("()\n", 1, "holds nothing"),
        ("(S ((NN a)))\n", 1, "no label"),
        ("(S (NP the (NN dog)))\n", 1, "'the' stands beside brackets"),
        ("(S (NN a) b)\n", 1, "'b' stands beside brackets"),
        ("\n\nhello\n", 3, "'hello' stands outside"),
    ],
)
def test_bad_trees_are_named_with_file_and_line(text, line, reason, tmp_path):
    with pytest.raises(UserError, match=rf"trees\.mrg:{line}: .*{reason}.*: correct") as error:
        read_text(text, tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("( (S (NP-SBJ-1 (DT the)) (VP=2 (VB go))) )", "(TOP (S (NP (DT the)) (VP (VB go))))"),
        ("(ROOT (NP (NN a)))", "(TOP (NP (NN a)))"),
        ("(S1 (NP (NN a)))", "(TOP (NP (NN a)))"),
        ("(S-HLN (NP (NN a)))", "(TOP (S (NP (NN a))))"),
        ("(NN a)", "(TOP (NN a))"),
        ("( (NP (NP (NN a)) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))))", "(TOP (NP (NP (NN a))))"),
        ("( (NP (-LRB- -LRB-) (NN-X b) (-RRB- ])))", "(TOP (NP (-LRB- -LRB-) (NN b) (-RRB- ])))"),
        ("( (X (X (X (X=3 (NN a))))))", "(TOP (X (X (X (X (NN a))))))"),
        ("( (NP (NN \u2009a\u00a0b\u00a0)))", "(TOP (NP (NN a\u00a0b)))"),
    ],
)
def test_cleaning(raw, expected):
    assert to_line(clean(parse_tree(raw))) == expected


def test_a_tree_of_empty_elements_is_nothing():
    assert clean(parse_tree("( (S (NP (-NONE- *)) (-NONE- 0)))")) is None


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


def make_wsj(folder: Path, sections: range = range(0, 25)) -> None:
    for section in sections:
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
    inner = script.wsj_files(tmp_path / "ptb" / "parsed" / "mrg", "test")
    assert inner == script.wsj_files(tmp_path / "ptb" / "parsed" / "mrg" / "wsj", "test")


def test_wall_street_journal_with_a_section_missing(tmp_path):
    make_wsj(tmp_path / "ptb", range(3, 24))
    done = run_script("data-prep/trees.py", "split", tmp_path / "ptb", "--output", tmp_path / "out")
    assert_one_line_error(done, "no .mrg files of section 02")
    assert not (tmp_path / "out").exists()
    done = run_script("data-prep/trees.py", "split", tmp_path, "--output", tmp_path / "out")
    assert_one_line_error(done, "no sections 02 to 23")


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
    done = run_script("data-prep/trees.py", "linearize", output, *flags[:3], tmp_path / "words")
    assert_one_line_error(done, "--source and --target: ", "is an input or another output")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mrg", "out.trees"]


def original(name: str) -> Path:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"NOT TESTED: no {path} (set VASWANI_DATA to the folder of corpora)")
    return path


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ORIGINALS)
def test_real_treebanks_are_cleaned_as_by_another_hand(name):
    path = original(name)
    cleaned = path.with_name(path.name.split(".")[0] + ".clean.gz")
    expected = gzip.decompress(cleaned.read_bytes()).decode("utf-8")
    lines = [to_line(kept) for tree in read_trees(path) if (kept := clean(tree))]
    assert "".join(f"{line}\n" for line in lines) == expected
