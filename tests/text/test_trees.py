"""Reading, cleaning and writing of bracketings, and the script trees.py; reference: nltk's Tree."""

import gzip
import os
import random
import re
from pathlib import Path

import pytest
import trees as script
from nltk.tree import Tree as NltkTree

from tests.support.random_trees import WORDS, random_tree
from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.errors import UserError
from vaswani_plugin.text.trees import (
    CLOSE,
    BadTree,
    Leaf,
    Open,
    Tree,
    clean,
    escape_brackets,
    nltk_tree,
    parse_tree,
    read_trees,
    to_line,
    unescape_brackets,
)

DATA = Path(os.environ.get("VASWANI_DATA", "unset-VASWANI_DATA"))
ORIGINALS = [f"craft-treebank/{part}.mrg.gz" for part in ("train", "valid", "test")]
ORIGINALS += [f"gum-treebank/{part}.ptb.gz" for part in ("train", "valid", "test")]

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


def test_reads_gzip_and_bare_words(tmp_path):
    path = tmp_path / "one.mrg.gz"
    path.write_bytes(gzip.compress(b"(NN dog)\r\n(TOP (NN cat))"))
    assert list(read_trees(path)) == [
        [Leaf("NN", "dog")],
        [Open("TOP"), Leaf("NN", "cat"), CLOSE],
    ]


def test_a_byte_order_mark_is_no_text(tmp_path):
    trees = read_text("\ufeff(S (NN a))\n(S (NN b))\n", tmp_path)
    assert [to_line(tree) for tree in trees] == ["(S (NN a))", "(S (NN b))"]
    with pytest.raises(UserError, match="trees.mrg:2: .* stands outside"):
        read_text("(S (NN a))\n\ufeff(S (NN b))\n", tmp_path)


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
        ("(S (NN a))\n(S (NP (NN b))\n(S (NN c))\n", 2, "not closed before line 3"),
        ("(S (NN a))\n(S (NP\n  (NN b))\n", 2, "missing at the end of the file"),
        ("(S (NN a)))\n", 1, "stands outside|too many"),
        ("(S (NN a))\n)\n", 2, "too many"),
        ("(S (NP) (NN a))\n", 1, "holds nothing"),
        ("()\n", 1, "holds nothing"),
        ("(S ((NN a)))\n", 1, "no label"),
        ("(S (NP the (NN dog)))\n", 1, "'the' stands beside brackets"),
        ("(S (NN a) b)\n", 1, "'b' stands beside brackets"),
        ("\n\nhello\n", 3, "'hello' stands outside"),
        (b"(S (NN a))\n(S (NN \xff))\n", 2, "invalid UTF-8"),
        (b"(S (NN a\x00))\n", 1, r"U\+0000"),
        (bytes(range(256)), 1, "U|UTF-8"),
    ],
)
def test_bad_trees_are_named_with_file_and_line(text, line, reason, tmp_path):
    with pytest.raises(UserError, match=rf"trees\.mrg:{line}: .*({reason}).*: correct") as error:
        read_text(text, tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "kept", "bad"),
    [
        # An empty constituent, with and without white space in front, one or two trees a line.
        ("(S (VP))\n(S (A a))", ["(S (A a))"], [1]),
        (" (S (NP (A a)) (VP))\n (S (A b))\n", ["(S (A b))"], [1]),
        ("(S (VP)) (S (A a))\n(S (A b))", ["(S (A a))", "(S (A b))"], [1]),
        ("(S (A a)) (S (VP)) (S (A b))", ["(S (A a))", "(S (A b))"], [1]),
        # Over several lines.
        ("(S\n  (VP)\n  (A a))\n(S\n  (A b))\n", ["(S (A b))"], [1]),
        ("  (S\n    (VP))\n  (S\n    (A b))\n", ["(S (A b))"], [1]),
        # A missing bracket: the next line no further right begins another tree.
        ("(S (A a)\n(S (A b))\n(S (A c))", ["(S (A b))", "(S (A c))"], [1]),
        ("\t(S (A a)\n\t(S (A b))", ["(S (A b))"], [1]),
        ("(S\n  (A a)\n(S (A b))\n(S (A c)", ["(S (A b))"], [1, 4]),
        # A bracket too many, text outside, bytes that are no text.
        ("(S (A a)))\n)(S (A b))", ["(S (A a))", "(S (A b))"], [1, 2]),
        ("x\n  (S (A a)) y\n(S (A b))", ["(S (A a))", "(S (A b))"], [1, 2]),
        (b"(S (A \xff)) (S (A a))\n\xfe\n(S (A \x00))\n(S (A b))", None, [1, 2, 3]),
        # Words and labels where none can be.
        ("(S (A a) b)\n(S ((A a)))\n(S c (A a))\n()\n(S (A b))", ["(S (A b))"], [1, 2, 3, 4]),
    ],
)
def test_a_bad_tree_loses_no_other(text, kept, bad, tmp_path):
    (tmp_path / "t").write_bytes(text.encode() if isinstance(text, str) else text)
    messages: list[str] = []
    found = [to_line(tree) for tree in read_trees(tmp_path / "t", messages.append)]
    assert found == (["(S (A a))", "(S (A b))"] if kept is None else kept)
    assert [int(re.search(r":(\d+):", message)[1]) for message in messages] == bad


def test_one_bad_tree_among_random_ones_is_left_out_alone(tmp_path):
    rng = random.Random(12)
    broken = ["(S (X))", "(S (A a)", "(S ((A a)))", "(S b (A a))", "(A a) (S)"]
    for _ in range(200):
        margin, made = " " * rng.randrange(3), [random_tree(rng) for _ in range(6)]
        texts = [nltk_tree(tree).pformat(margin=rng.choice([20, 999])) for tree in made]
        place = rng.randrange(6)
        texts[place] = rng.choice(broken)
        lines = "\n".join(texts).replace("\n", "\n" + margin)
        (tmp_path / "t").write_text(margin + lines + "\n")
        messages: list[str] = []
        found = list(read_trees(tmp_path / "t", messages.append))
        whole = [Leaf("A", "a")]
        expected = [tree for n, tree in enumerate(made) if n != place]
        assert [tree for tree in found if tree != whole] == expected and len(messages) == 1


def test_files_without_trees_and_broken_gzip(tmp_path):
    for content in ("", "\n \n"):
        with pytest.raises(UserError, match=r"trees\.mrg: no trees"):
            read_text(content, tmp_path)
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"(S (NN a))\n" * 99)[:-9])
    with pytest.raises(UserError, match=r"x\.gz: broken"):
        list(read_trees(tmp_path / "x.gz"))


def test_parse_tree_takes_one_tree():
    for text in ("(S (NN a)) (S (NN b))", "", "(S (NN a)", "x"):
        with pytest.raises(BadTree):
            parse_tree(text)


def test_brackets_in_words_are_escaped():
    assert escape_brackets(":-)(") == ":--RRB--LRB-"
    assert unescape_brackets(escape_brackets("f(x)")) == "f(x)"


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


def test_folders_stand_for_their_treebank_files(tmp_path):
    for name in ("b/2.mrg", "a/1.mrg.gz", "a/README", "c.tree"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "b.tree").mkdir()  # a folder is no file, whatever its name
    found = [str(path.relative_to(tmp_path)) for path in script.tree_files([str(tmp_path)])]
    assert found == ["a/1.mrg.gz", "b/2.mrg", "c.tree"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no treebank files"):
        script.tree_files([str(tmp_path / "empty")])


def test_script_skips_and_counts_bad_trees(tmp_path):
    path = tmp_path / "bad.mrg"
    path.write_text("( (S (NN a)) )\n( (S (NN b) )\n( (S (-NONE- *)) )\n( (NP-X (NN c)) )\n")
    output = tmp_path / "out.trees"
    done = run_script("data-prep/trees.py", "clean", path, "--output", output)
    assert_one_line_error(done, "bad.mrg:2: not closed before line 3", "--skip-bad")
    assert not output.exists()
    done = run_script("data-prep/trees.py", "clean", path, "--output", output, "--skip-bad")
    assert done.returncode == 0
    assert output.read_text() == "(TOP (S (NN a)))\n(TOP (NP (NN c)))\n"
    assert "bad.mrg:2: not closed" in done.stderr
    assert "2 trees to" in done.stderr and "1 bad trees left out, 1 without words" in done.stderr


def test_tags_of_words_between_several_blanks(tmp_path):
    (tmp_path / "words").write_text(" a  b\n")
    (tmp_path / "symbols").write_text("(S XX XX )\n")
    (tmp_path / "gold").write_text("(S (DT a) (NN b))\n")
    flags = ("--source", tmp_path / "words", "--target", tmp_path / "symbols")
    done = run_script("data-prep/trees.py", "restore", *flags, "--tags-from", tmp_path / "gold")
    assert done.stdout == "(S (DT a) (NN b))\n", done.stderr


def test_junk_is_refused_or_read_but_never_breaks_the_reader(tmp_path):
    rng = random.Random(8)
    outcomes = set()
    for _ in range(400):
        parts = rng.choices(["(", ")", "NN", " ", "\n", "\t", "é", "(S ", "(NN a)"], k=9)
        text = "".join(parts).encode() + (rng.randbytes(2) if rng.random() < 0.1 else b"")
        try:
            trees = read_text(text, tmp_path)
        except UserError:
            outcomes.add("refused")
            continue
        outcomes.add("read")
        assert all(parse_tree(to_line(tree)) == tree for tree in trees)
        kept = [to_line(tree) for tree in read_trees(tmp_path / "trees.mrg", lambda message: None)]
        assert kept == [to_line(tree) for tree in trees]
    assert outcomes == {"refused", "read"}


def original(name: str) -> Path:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"NOT TESTED: no {path} (set VASWANI_DATA to the folder of corpora)")
    return path


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ORIGINALS)
def test_real_treebanks_come_back_symbol_for_symbol(name):
    path = original(name)
    text = gzip.decompress(path.read_bytes()).decode("utf-8")
    parts = re.findall(r"[()]|[^()\s]+", text, re.ASCII)
    written = " ".join(to_line(tree) for tree in read_trees(path))
    assert re.findall(r"[()]|[^()\s]+", written, re.ASCII) == parts


@pytest.mark.shared_data
@pytest.mark.parametrize("name", [name for name in ORIGINALS if "train" not in name])
def test_real_treebanks_are_cleaned_as_by_another_hand(name):
    path = original(name)
    cleaned = path.with_name(path.name.split(".")[0] + ".clean.gz")
    expected = gzip.decompress(cleaned.read_bytes()).decode("utf-8")
    lines = [to_line(kept) for tree in read_trees(path) if (kept := clean(tree))]
    assert "".join(f"{line}\n" for line in lines) == expected


def test_the_random_trees_hold_what_they_should():
    rng = random.Random(3)
    words = {symbol.word for _ in range(200) for symbol in random_tree(rng) if len(symbol) == 2}
    assert words == set(WORDS)
