"""check_corpus.py: what it refuses, and what its rules remove."""

import json
import os
import re
import tracemalloc
import unicodedata
from functools import partial
from pathlib import Path

import pytest

from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.text import cleaning
from vaswani_plugin.text.cleaning import Rules, SeenPairs

DATA = Path(os.environ.get("VASWANI_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def write_pair(folder: Path, source: bytes, target: bytes) -> tuple[Path, Path]:
    """Writes both sides as they are given."""
    (folder / "a.en").write_bytes(source)
    (folder / "a.de").write_bytes(target)
    return folder / "a.en", folder / "a.de"


def check(*args: object):
    """Runs the script."""
    return run_script("data-prep/check_corpus.py", *args)


def test_counts(tmp_path):
    pair = write_pair(tmp_path, b"a b c\nd\n", "ä b\nd e\n".encode())
    report = json.loads(check(*pair, "--format", "json").stdout)
    assert report == {
        "lines": 2,
        "source_words": 4,
        "target_words": 4,
        "source_characters": 6,
        "target_characters": 6,
        "source_longest": 3,
        "target_longest": 2,
    }


@pytest.mark.parametrize(
    ("source", "target", "parts"),
    [
        (b"a\nb\nc\n", b"a\n", ["a.de has 1 lines", "a.en has 3"]),
        (b"a\n", b"a\nb\n", ["a.en has 1 lines", "a.de has 2"]),
        (b"a\nb\n", b"", ["a.de: the file is empty", "a.en has 2 lines"]),
        (b"", b"", ["both files are empty"]),
        (b"a\n  \n", b"a\nb\n", ["a.en:2: empty side", "--clean"]),
        (b"a\nb\n", b"a\nb\xc3\n", ["a.de:2: invalid UTF-8"]),
        (b"a\nb\rc\n", b"a\nb\n", ["a.en:2: carriage return"]),
    ],
)
def test_bad_corpora_are_refused(tmp_path, source, target, parts):
    assert_one_line_error(check(*write_pair(tmp_path, source, target)), *parts)


def test_unicode_line_separators_do_not_shift_the_sides(tmp_path):
    pair = write_pair(tmp_path, "a\u2028b\nc\n".encode(), "a\nc\u0085\n".encode())
    assert json.loads(check(*pair, "--format", "json").stdout)["lines"] == 2


def test_clean_applies_each_rule_and_counts_it(tmp_path):
    source = b"keep me\n\nlong long long long\none\nx\ry\n"
    target = b"keep me\nx\nlong long long long\none two\nz\n"
    out = tmp_path / "out.en", tmp_path / "out.de.gz"
    done = check(
        *write_pair(tmp_path, source, target),
        *("--clean", *out, "--max-length", 3, "--max-ratio", 1.5, "--format", "json"),
    )
    report = json.loads(done.stdout)
    assert (report["read"], report["kept"]) == (5, 1)
    assert report["removed"] == {
        "empty side": 1,
        "longer than 3 words": 1,
        "length ratio over 1.5": 1,
        "carriage return inside the line": 1,
    }
    assert out[0].read_text() == "keep me\n"


def test_the_limits_themselves_are_kept(tmp_path):
    pair = write_pair(tmp_path, b"a b c\n", b"a b\n")
    out = tmp_path / "o.en", tmp_path / "o.de"
    done = check(*pair, "--clean", *out, "--max-length", 3, "--max-ratio", 1.5)
    assert done.returncode == 0
    assert out[1].read_text() == "a b\n"


def test_nothing_left_writes_nothing(tmp_path):
    pair = write_pair(tmp_path, b"a b c\n", b"a\n")
    out = tmp_path / "o.en", tmp_path / "o.de"
    assert_one_line_error(check(*pair, "--clean", *out), "leave no line")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en"]


def test_a_broken_pair_leaves_no_cleaned_file(tmp_path):
    pair = write_pair(tmp_path, b"a\nb\n", b"a\n")
    assert_one_line_error(check(*pair, "--clean", tmp_path / "o.en", tmp_path / "o.de"), "differ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en"]


@pytest.mark.parametrize(
    "flags",
    [("--max-length", "0"), ("--max-ratio", "0.5"), ("--max-ratio", "nan"), ("--min-length", "0")],
)
def test_impossible_limits(tmp_path, flags):
    pair = write_pair(tmp_path, b"a\n", b"a\n")
    cleaned = ("--clean", tmp_path / "o.en", tmp_path / "o.de")
    assert_one_line_error(check(*pair, *cleaned, *flags), flags[0], flags[1])


def test_limits_are_of_the_cleaned_copy(tmp_path):
    pair = write_pair(tmp_path, b"a b\n", b"a b\n")
    for flags in (("--max-length", "1"), ("--drop-duplicates",)):
        assert_one_line_error(check(*pair, *flags), f"{flags[0]} goes with --clean")


def test_clean_never_overwrites_what_it_reads(tmp_path):
    source, target = write_pair(tmp_path, b"a\n", b"a\n")
    for outputs in ((source, tmp_path / "o"), (tmp_path / "o", tmp_path / "." / "o")):
        assert_one_line_error(
            check(source, target, "--clean", *outputs), "--clean: ", "give another"
        )
    assert source.read_bytes() == b"a\n"


def cleaned(folder: Path, source: list[str], target: list[str], **rules) -> tuple[list[str], dict]:
    """Cleans in this process; returns the source lines that are left, and the report."""
    pair = write_pair(
        folder, *("".join(f"{line}\n" for line in side).encode() for side in (source, target))
    )
    outputs = (str(folder / "o.en"), str(folder / "o.de"))
    report = cleaning.clean(*map(str, pair), outputs, Rules(**rules))
    return (folder / "o.en").read_text("utf-8").split("\n")[:-1], report


def test_short_lines(tmp_path):
    sides = ["a b", "a b c", "a b c d"], ["x y z", "x y z", "x y z"]
    kept, report = cleaned(tmp_path, *sides, min_length=3)
    assert kept == ["a b c", "a b c d"]
    assert report["removed"] == {"shorter than 3 words": 1}


def test_words_that_no_tool_can_take(tmp_path):
    kept, report = cleaned(tmp_path, ["a", "a", "b"], ["x" * 1000, "x" * 1001, "y"])
    assert kept == ["a", "b"]
    assert report["removed"] == {"word longer than 1000 characters": 1}


def test_control_characters_by_the_unicode_database(tmp_path):
    marks = [chr(code) for code in [*range(0x100), 0x2028, 0x2029, 0x200B, 0xFEFF, 0xE000]]
    lines = [f"a{mark}b" for mark in marks if mark != "\n"]
    kept, report = cleaned(tmp_path, lines, ["x"] * len(lines), max_ratio=2)
    assert kept == [x for x in lines if x[1] == "\t" or unicodedata.category(x[1]) != "Cc"]
    assert report["removed"] == {"control character": 62, "carriage return inside the line": 1}


def test_duplicates_are_exact_pairs(tmp_path):
    source = ["a", "b", "a", "a", "A", "a", "ab", "a"]
    target = ["x", "x", "x", "y", "x", "x", "x", "bx"]
    kept, report = cleaned(tmp_path, source, target, drop_duplicates=True, max_ratio=2)
    assert kept == ["a", "b", "a", "A", "ab", "a"]
    assert report == {"read": 8, "kept": 6, "removed": {"duplicate": 2}}
    assert cleaned(tmp_path, source, target, max_ratio=2)[1]["kept"] == 8


def test_the_table_of_duplicates_is_a_set_in_little_memory():
    table, reference = SeenPairs(), set()
    for number in range(30_000):
        pair = str(number * number % 9_973), str(number % 3)
        assert table.add(*pair) == (pair not in reference), pair
        reference.add(pair)
    assert 10_000 < len(table) == len(reference) < 30_000
    assert 12 * len(table) <= table._slots.itemsize * len(table._slots) <= 24 * len(table)


def test_pairs_that_share_a_place_in_the_table_stay_apart():
    table = SeenPairs()
    last = len(table._slots) - 1
    keys = [last, last + 1024, last + 2048, 1024]  # the last place, and round to the first
    assert all(table._insert(key) for key in keys)
    assert not any(table._insert(key) for key in keys)


def test_memory_does_not_grow_with_the_corpus(tmp_path):
    pair = [str(tmp_path / f"a.{side}") for side in ("en", "de")]
    peaks = []
    for count in (8_000, 16_000):
        text = b"".join(b"line %d %s\n" % (i, b"x" * 80) for i in range(count))
        write_pair(tmp_path, text, text)
        for step in (
            partial(cleaning.check, *pair),
            partial(cleaning.clean, *pair, (str(tmp_path / "o1"), str(tmp_path / "o2")), Rules()),
        ):
            tracemalloc.start()
            step()
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert (tmp_path / "o1").read_bytes() == text
    assert max(peaks[2:]) < max(peaks[:2]) + 80_000


def moses_keeps(left: str, right: str, longest: int, ratio: float) -> bool:
    """The rules of clean-corpus-n.perl, written from its source."""
    counts = []
    for line in (left, right):
        line = re.sub(r"\s+", " ", line.replace("|", ""))
        line = re.sub("^ ", "", line)
        line = re.sub(" $", "", line)
        if line == "" or re.search(r"[^\s|]{1001}", line):
            return False
        counts.append(len(line.split(" ")))
    if max(counts) > longest or min(counts) < 1:
        return False
    return counts[0] / counts[1] <= ratio and counts[1] / counts[0] <= ratio


@pytest.mark.shared_data
@pytest.mark.parametrize("corpus", ["newstest/en-de", "tatoeba-en-de", "tatoeba-en-fr"])
def test_real_corpora_are_cleaned_as_by_moses(tmp_path, corpus):
    folder = DATA / corpus
    if not folder.is_dir():
        pytest.skip(f"NOT CHECKED: no {folder} (set VASWANI_DATA to a folder with {corpus} in it)")
    paths = [folder / f"train.{side}.gz" for side in ("en", corpus[-2:])]
    outputs = (str(tmp_path / "l"), str(tmp_path / "r"))
    report = cleaning.clean(*map(str, paths), outputs, Rules(max_length=40))
    control = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f]")
    expected = [
        pair
        for pair in cleaning.read_pairs(*paths)
        if moses_keeps(*pair, 40, 1.5) and not control.search("".join(pair))
    ]
    assert list(cleaning.read_pairs(*outputs)) == expected
    assert report["kept"] == len(expected) < report["read"]
