"""cleaning.py by its scripts: what is refused, what the rules drop, no sentence in two splits."""

import gzip
import json
import random
import re
import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_pairs
from vaswani_plugin.text.cleaning import clean, sentence_key

SPLITS = ("train", "valid", "test")
ODD = "\0\t\x0b\x0c\r\x1a\x1c\x1d\x1e\x85\xa0\xad\u200b\u2028\u2029\u3000\ufeff\U0001f600e\u0301&"
LETTERS = st.sampled_from(ODD) | st.characters(codec="utf-8", exclude_characters="\n|")
SIDE = st.text(LETTERS | st.sampled_from("ab   "), max_size=8)
Pair = tuple[str, str]


def test_clean_applies_each_rule_and_counts_it(tmp_path):
    pair = tmp_path / "a.en", tmp_path / "a.de"
    pair[0].write_bytes(b"keep me\n\nlong long long long\none\nx\ry\nkeep me\nx\n")
    pair[1].write_bytes(b"keep me\nx\nlong long long long\none two\nz\nkeep me\n" + b"a" * 1001)
    out = tmp_path / "out.en", tmp_path / "out.de.gz"
    limits = ("--max-length", 3, "--max-ratio", 1.5, "--drop-duplicates")
    done = run_script("data-prep/check_corpus.py", *pair, "--clean", *out, *limits)
    reasons = "empty side|longer than 3 words|length ratio over 1.5|control character|duplicate"
    reasons += "|word longer than 1000 characters"
    expected = ["read: 7", "kept: 1", *(f"removed, {reason}: 1" for reason in reasons.split("|"))]
    assert done.stdout.splitlines() == expected
    assert out[0].read_text() == "keep me\n"
    assert gzip.decompress(out[1].read_bytes()) == b"keep me\n"


def has_controls(line: str) -> bool:
    """By the Unicode database."""
    return any(unicodedata.category(c) == "Cc" and c != "\t" for c in line)


def moses_keeps(left: str, right: str, longest: int, ratio: float) -> bool:
    """The rules of clean-corpus-n.perl, written from its source."""
    counts = []
    for line in (left, right):
        line = re.sub(r"\s+", " ", line.replace("|", ""))
        line = re.sub(" $", "", re.sub("^ ", "", line))
        if line == "" or re.search(r"[^\s|]{1001}", line):
            return False
        counts.append(len(line.split(" ")))
    if max(counts) > longest or min(counts) < 1:
        return False
    return counts[0] / counts[1] <= ratio and counts[1] / counts[0] <= ratio


@given(
    st.lists(st.tuples(SIDE, SIDE), max_size=9),
    *(st.integers(2, 4), st.sampled_from([1, 1.5, 3]), st.booleans()),
)
def test_pairs_stay_pairs_and_every_other_is_counted(pairs, most, ratio, twice):
    pairs = pairs * (1 + twice)
    # Every reader takes a "\r" before the line end for Windows'.
    read = [(left.rstrip("\r"), right.rstrip("\r")) for left, right in pairs]
    read[:1] = [tuple(side.removeprefix("\ufeff") for side in pair) for pair in read[:1]]
    expected = [
        pair for pair in read if moses_keeps(*pair, most, ratio) and not has_controls("".join(pair))
    ]
    expected = list(dict.fromkeys(expected)) if twice else expected
    with tempfile.TemporaryDirectory() as folder:
        paths, outputs = ([str(Path(folder, f"{n}{i}")) for i in (0, 1)] for n in "io")
        for side, path in enumerate(paths):
            Path(path).write_bytes("".join(pair[side] + "\n" for pair in pairs).encode())
        if not expected:
            with pytest.raises(UserError):
                clean(paths, outputs, most, ratio, twice)
            assert len(list(Path(folder).iterdir())) == 2
            return
        report = clean(paths, outputs, most, ratio, twice)
        assert list(read_pairs(*outputs)) == expected
    assert report["read"] == len(pairs) and report["kept"] == len(expected)
    assert sum(report["removed"].values()) == len(pairs) - len(expected)


# Text of one's own.


def pairs_of(seed: int, count: int = 600) -> list[Pair]:
    """A made-up language pair; a tenth of the sentences come in several pairs."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("aeiounrst", k=rng.randint(3, 7))) for _ in range(80)]
    to_cyrillic = str.maketrans("aeiounrstAEIOUNRST", "оеияюмлкпОЕИЯЮМЛКП")

    def sentence() -> str:
        return " ".join(rng.choices(words, k=rng.randint(3, 8))).capitalize()

    lefts = [sentence() for _ in range(count)]
    pairs = [(left, left.translate(to_cyrillic) + ".") for left in lefts]
    for _ in range(count // 10):
        pairs.append((rng.choice(lefts).upper(), sentence().translate(to_cyrillic) + "."))
    return pairs


def write(folder: Path, pairs: list[Pair], name: str = "a") -> list[Path]:
    """Both sides as NAME.aa and NAME.bb."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{name}.aa", folder / f"{name}.bb"]
    for side, path in enumerate(paths):
        path.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return paths


def own_text(work: Path, *args: object):
    """Runs own_text.py, with the splits in WORK/raw."""
    where = ("--output", work / "raw", "--report", work / "corpus.json")
    return run_script("data-prep/own_text.py", "--pair", "aa-bb", *args, *where)


def report_of(work: Path, done) -> dict:
    assert done.returncode == 0, done.stderr
    return json.loads((work / "corpus.json").read_text())


def split_pairs(work: Path, name: str) -> list[Pair]:
    return list(read_pairs(*(work / "raw" / f"{name}.{side}" for side in ("aa", "bb"))))


def assert_no_leak(work: Path) -> None:
    """By brute force: no sentence is in two splits."""
    for side in (0, 1):
        seen = [{p[side].lower() for p in split_pairs(work, name)} for name in SPLITS]
        assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])


def test_one_corpus_gives_three_splits_in_any_order_of_its_lines(tmp_path):
    pairs = pairs_of(0)
    found = report_of(tmp_path, own_text(tmp_path, "--train", *write(tmp_path, pairs)))
    assert_no_leak(tmp_path)
    splits = {name: split_pairs(tmp_path, name) for name in SPLITS}
    distinct = list(dict.fromkeys(pairs))
    assert sorted(sum(splits.values(), [])) == sorted(distinct)
    assert splits["train"] == [pair for pair in distinct if pair in set(splits["train"])]
    assert found["splits"] == {"test": 50, "valid": 50, "train": len(distinct) - 100}
    # The same pairs as columns, in another order; a row with another number of them is counted.
    other = tmp_path / "other"
    other.mkdir()
    shuffled = random.Random(1).sample(pairs, len(pairs))
    for head, flags in (("id\tTARGET\tSource\n", ()), ("", ("--columns", "3,2"))):
        table = head + "".join(f"7\t{b}\t{a}\n" for a, b in shuffled) + "7\tb\ta\tc\n"
        (other / "a.tsv.gz").write_bytes(gzip.compress(table.encode()))
        found = report_of(other, own_text(other, "--train", other / "a.tsv.gz", *flags))
        assert found["files"]["train"]["dropped"]["another number of columns"]["count"] == 1
        for name in SPLITS:
            assert sorted(split_pairs(other, name)) == sorted(splits[name])


def test_marks_and_signs_tell_sentences_apart_but_spaces_case_and_unicodes_form_do_not():
    assert len(set(map(sentence_key, ["Caf\u00e9 a  b", "cafe\u0301 A B ", "CAF\u00c9 a b"]))) == 1
    different = ["Ma\u00dfe", "Masse", "10\u2076", "106", "a", "\uff41", "a\u0301", "a!", "!", "?"]
    different += ["\u0935\u0939 \u091c\u093e\u0924\u093e", "\u0935\u0939 \u091c\u093e\u0924\u0940"]
    assert len(set(map(sentence_key, different))) == len(different)


def test_sets_of_the_user_are_kept_and_their_sentences_leave_the_training_text(tmp_path):
    pairs = pairs_of(2)
    test, valid = pairs[:40], pairs[30:70]  # ten pairs are in both
    pairs += [(left[::-1], right) for left, right in test]
    names = {"test": test, "valid": valid}
    flags = [f for n, chosen in names.items() for f in (f"--{n}", *write(tmp_path, chosen, n))]
    flags[-2:] = [tmp_path / "valid.tsv"]
    flags[-1].write_text("".join(f"{left}\t{right}\n" for left, right in valid))
    table = tmp_path / "a.tsv"  # its columns are not those of files with two sides alone
    table.write_text("".join(f"7\t{right}\t{left}\n" for left, right in pairs))
    found = report_of(tmp_path, own_text(tmp_path, "--train", table, "--columns", "3,2", *flags))
    assert split_pairs(tmp_path, "test") == test
    assert split_pairs(tmp_path, "valid") == [p for p in valid if p not in set(test)]
    assert_no_leak(tmp_path)
    dropped = found["files"]["train"]["dropped"]["shares a sentence with held-out text"]
    assert dropped == {"count": len(pairs) - found["splits"]["train"], "first": f"{table}:1"}


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (("\ufeff", "b"), "empty"),
        (("a " * 501, "b " * 501), "too long"),
        (("Same  text.", "same text."), "the same text on both sides"),
        (("short", "x" * 100), "lengths that don't fit"),
    ],
)
def test_a_bad_pair_is_dropped(tmp_path, bad, rule):
    pairs = pairs_of(5, 50)
    found = report_of(tmp_path, own_text(tmp_path, "--train", *write(tmp_path, [*pairs, bad])))
    dropped = {rule: {"count": 1, "first": f"{tmp_path}/a.aa:{len(pairs) + 1}"}}
    assert found["files"]["train"]["dropped"] == dropped


PAIRED = b"".join(b"Question %d?\tAnswer %d.\n" % (n % 20, n) for n in range(100))


@pytest.mark.parametrize(
    ("files", "flags", "part"),
    [
        ({"a": b"x\n" * 30}, "--train a", "a:1: another number of columns: 30 of 30 pairs"),
        ({"a": b"7\tx\ty\n" * 30}, "--train a", "or name these columns, such as --columns 2,3"),
        ({"a": b"7\tx\ty\n"}, "--train a --columns 2,4", "--columns: a has 3 columns"),
        ({"a": b"7\tx\n"}, "--train a --columns 1,3", "--columns: a has 2 columns"),
        ({"a": b"7\tx\ty\n"}, "--train a --columns 0,1", "--columns 0,1: give two numbers"),
        ({"a.bb": b"x\n", "a.aa": b"y\n"}, "--train a.bb a.aa", "a.bb is not aa by its name"),
        ({"a.aa": b"x\n", "b.de.gz": b""}, "--train a.aa b.de.gz", "b.de.gz is not bb by"),
        ({"a.bb-aa.tsv": b"x\ty\n"}, "--train a.bb-aa.tsv", "is not aa-bb by its name"),
        ({"a": b"x\tt\n" * 30}, "--train a", "1 pairs are too few"),
        ({"a": PAIRED, "b": b"aa\tbb\n"}, "--train a --test b", "b: 0 pairs are too few"),
        ({"a": PAIRED, "b": b"\tx\nx\tx\n"}, "--train a --valid b", "b: 0 pairs are too few"),
        ({"a": PAIRED}, "--train a", "of 100 pairs, 0 share no sentence"),
        ({"raw/train.aa": b"x\n"}, "--train raw/train.aa", "raw/train.aa is an input"),
    ],
)
def test_mistakes(tmp_path, files, flags, part):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    where = ("--pair", "aa-bb", "--output", "raw", "--report", "r.json")
    done = run_script("data-prep/own_text.py", *flags.split(), *where, cwd=tmp_path)
    assert_one_line_error(done, part)
    assert not (tmp_path / "r.json").exists()
