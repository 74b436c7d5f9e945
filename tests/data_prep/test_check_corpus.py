"""check_corpus.py: what it refuses, and what its rules remove."""

import json
from pathlib import Path

import pytest

from tests.support.scripts import assert_one_line_error, run_script


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


@pytest.mark.parametrize("flags", [("--max-length", "0"), ("--max-ratio", "0.5")])
def test_impossible_limits(tmp_path, flags):
    pair = write_pair(tmp_path, b"a\n", b"a\n")
    assert_one_line_error(check(*pair, *flags), flags[0], flags[1])
