"""screening.py and columns.py: what is dropped of text in any language, and what is refused."""

import gzip
import random
import unicodedata
from pathlib import Path

import pytest

from vaswani_plugin.text.columns import PairFiles, read_text
from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.screening import (
    CARRIAGE_RETURN,
    CONTROLS,
    COPY,
    EMPTY,
    MOST_DROPPED,
    NO_LETTERS,
    REPEATED,
    SWAPPED,
    TOO_LONG,
    UNEVEN,
    Dropped,
    PairRules,
    PairScreen,
    byte_length,
    judge_lines,
)

GERMAN_RUSSIAN = [
    (f"Das Haus {n} steht auf einem kleinen Berg.", f"Дом {n} стоит на небольшой горе.")
    for n in range(60)
]
CHINESE_ENGLISH = [
    (f"第{n}座房子在山上。", f"House number {n} is standing on the hill.") for n in range(60)
]


@pytest.mark.parametrize(
    ("pairs", "rule_if_swapped"),
    [(GERMAN_RUSSIAN, SWAPPED), (CHINESE_ENGLISH, UNEVEN)],  # Chinese is far shorter
)
def test_good_pairs_are_kept_in_any_script(pairs, rule_if_swapped):
    screen = PairScreen(PairRules(), pairs)
    assert [screen.judge(*pair) for pair in pairs] == [None] * len(pairs)
    assert {screen.judge(*pair[::-1]) for pair in pairs} == {rule_if_swapped}


@pytest.mark.parametrize(
    ("left", "right", "rule"),
    [
        ("", "Да.", EMPTY),
        ("Ja.", " \u3000", EMPTY),
        ("Ja,\rnein.", "Да.", CARRIAGE_RETURN),
        ("Ja.", "Да\x07.", CONTROLS),
        ("1848", "В 1848 году.", NO_LETTERS),
        ("1848", "1848", COPY),
        ("Москва!", "москва", COPY),
        ("Ja. " * 251, "Да. " * 100, TOO_LONG),
        ("Ja.", "Да, " * 10, UNEVEN),
        ("Небольшой дом стоит на горе.", "Auf dem Berg steht ein kleines Haus.", SWAPPED),
        ("Ja.", "Да.", None),
        ("Ja\tund nein.", "Да и нет.", None),
    ],
)
def test_the_first_rule_that_is_broken(left, right, rule):
    assert PairScreen(PairRules(), GERMAN_RUSSIAN).judge(left, right) == rule


def test_rules_can_be_changed():
    screen = PairScreen(PairRules(max_length=5000, max_ratio=50, drop_copies=False), GERMAN_RUSSIAN)
    for pair in [("Ja. " * 251, "Да. " * 100), ("Ja.", "Да, " * 10), ("Москва!", "москва")]:
        assert screen.judge(*pair) is None
    for rules in ({"max_length": 0}, {"max_ratio": 0.5}, {"max_ratio": float("nan")}):
        with pytest.raises(InputError, match="must be at least 1"):
            PairRules(**rules)


def test_lengths_are_compared_by_the_usual_proportion_of_the_corpus():
    """Chinese is a third as long as English; by itself that is no fault."""
    short, long = (
        "房子在山上,离海不远。",
        "The house is on the hill, and it is not far from the sea.",
    )
    assert len(long) > 4 * len(short)
    assert PairScreen(PairRules(), CHINESE_ENGLISH).judge(short, long) is None
    assert PairScreen(PairRules(), GERMAN_RUSSIAN).judge(short * 2, long * 2) == UNEVEN


@pytest.mark.parametrize(("left", "right"), [(41, 143), (1, 23)])
def test_ten_characters_are_added_to_both_lengths(left, right):
    assert 3 * (left + 10) == right + 10
    screen = PairScreen(PairRules(max_ratio=3), [("a" * 9, "b" * 9)])
    assert screen.judge("a" * left, "b" * right) is None
    assert screen.judge("a" * left, "b" * (right + 1)) == UNEVEN


def test_lengths_bound_the_bytes_of_what_is_cut_into_subwords():
    rng = random.Random(1)
    letters = [chr(code) for code in range(0x21, 0xFFFF) if chr(code).isprintable()]
    for _ in range(300):
        line = "".join(rng.choices(letters, k=rng.randrange(20)))
        assert byte_length(line) == len(unicodedata.normalize("NFKC", line).encode())
    assert byte_length("\ufdfa") == 33  # one character becomes eighteen


def test_long_lines_are_kept_once_and_short_ones_always():
    judge = judge_lines()
    long = "A line of which nobody expects that it comes twice."
    lines = ["ROMEO:", long, "ROMEO:", "", long.upper(), long[:20], "\x00", long[:20]]
    assert [judge(line) for line in lines] == [
        None, None, None, EMPTY, REPEATED, None, CONTROLS, None,
    ]  # fmt: skip


def test_what_was_dropped_is_counted_with_its_first_place():
    dropped = Dropped()
    kept = [dropped.note(rule, f"a:{n}") for n, rule in enumerate([None, COPY, None, COPY, EMPTY])]
    assert kept == [True, False, True, False, False]
    dropped.check()
    assert (dropped.read, dropped.kept) == (5, 2)
    assert dropped.as_json()["dropped"] == {
        COPY: {"count": 2, "first": "a:1"},
        EMPTY: {"count": 1, "first": "a:4"},
    }


@pytest.mark.parametrize("rule", [COPY, EMPTY, UNEVEN, NO_LETTERS, TOO_LONG])
def test_a_rule_that_drops_most_is_an_error_with_place_and_remedy(rule):
    rules = [None] * 10 + [rule] * 10
    dropped = Dropped()
    for number, broken in enumerate(rules, start=1):
        dropped.note(broken, f"a.en:{number}")
    assert len([r for r in rules if r]) == MOST_DROPPED * len(rules)
    dropped.check()
    dropped.note(rule, "a.en:21")
    with pytest.raises(InputError, match=f"^a.en:11: {rule}: 11 of 21 pairs, first here: ."):
        dropped.check()


def test_repeated_pairs_are_no_error():
    dropped = Dropped()
    for rule in (None, REPEATED, REPEATED, REPEATED):
        dropped.note(rule, "a:1")
    dropped.check()
    dropped = Dropped()
    dropped.note(REPEATED, "a:1")
    with pytest.raises(InputError, match="no pairs are left: 0 of 1 pairs kept; dropped 1"):
        dropped.check()


def write(path: Path, content: str) -> str:
    """Writes a file; returns its name."""
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_columns(tmp_path, name):
    path = write(tmp_path / name, "\ufeffein\tone\nzwei\ttwo\tby us\n\nvier\u2028\t4\r\n")
    files = PairFiles((path,))
    assert list(files.read()) == [
        (1, "ein", "one"), (2, "zwei", "two"), (3, "", None), (4, "vier\u2028", "4"),
    ]  # fmt: skip
    assert files.place(3) == f"{path}:3"


@pytest.mark.parametrize("heading", ["DE\tHsb", "source\ttarget\tcomment"])
def test_a_heading_is_no_pair(tmp_path, heading):
    path = write(tmp_path / "a.tsv", f"{heading}\nein\tjedyn\n")
    assert list(PairFiles((path,), ("de", "hsb")).read()) == [(2, "ein", "jedyn")]
    path = write(tmp_path / "b.tsv", "de\tla\nein\tjedyn\n")
    assert len(list(PairFiles((path,), ("de", "hsb")).read())) == 2


def test_two_files(tmp_path):
    left, right = (
        write(tmp_path / "a.de.gz", "\ufeffein\nzwei\n"),
        write(tmp_path / "a.en", "1\n\t2\n"),
    )
    assert list(PairFiles((left, right)).read()) == [(1, "ein", "1"), (2, "zwei", "\t2")]
    for paths in ((), (left, left, right)):
        with pytest.raises(
            InputError, match=f"{len(paths)} files: give two, or one.* {' '.join(paths)}$"
        ):
            PairFiles(paths)
    with pytest.raises(InputError, match="a.tsv: the file is empty"):
        list(PairFiles((write(tmp_path / "a.tsv", ""),)).read())
    assert list(read_text(left)) == ["ein", "zwei"]
