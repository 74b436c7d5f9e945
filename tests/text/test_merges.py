"""vaswani_plugin.text.merges against subword-nmt's learning, where that is not exact as well."""

import contextlib
import io
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from subword_nmt.learn_bpe import learn_bpe

from vaswani_plugin.text.merges import learn_merges


def of_subword_nmt(counts: dict[str, int], operations: int, min_frequency: int) -> list[str]:
    """The lines of codes that subword-nmt writes."""
    codes = io.StringIO()
    entries = [f"{word} {count}" for word, count in counts.items()]
    with contextlib.redirect_stderr(io.StringIO()):
        learn_bpe(entries, codes, operations, min_frequency, is_dict=True)
    return codes.getvalue().removesuffix("\n").split("\n")[1:]


def of_ours(counts: dict[str, int], operations: int, min_frequency: int) -> list[str]:
    """The same of ours."""
    return [" ".join(pair) for pair in learn_merges(counts, operations, min_frequency)]


WORDS = st.one_of(
    st.text("ab", min_size=1, max_size=14),
    st.text("aaaab\u00e9\U0001f600", min_size=1, max_size=10),
    st.text("ab\u00a0\u2003", min_size=1, max_size=10),
    st.text(st.characters(codec="utf-8", exclude_characters=" \r\n"), min_size=1, max_size=6),
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(WORDS, st.integers(1, 3000), min_size=1, max_size=40),
    st.integers(1, 300),
    st.integers(1, 20),
)
@example({"a\0": 1, "a\U0010ffff": 1, "\U0010ffffb": 1, "\0b": 1, "b\0\0": 1}, 20, 1)
@example({"\u00a0ad": 200, "ab\u00a0abc": 50, "abz": 60}, 20, 1)
@example({"\u00a0\u00e4d": 200, "\u00a0\u00e4b\u00e4bc": 50, "\u00e4bz": 60}, 20, 1)
@example({"xxxxx": 3, "yxxxz": 2, "yxxxxz": 2}, 20, 1)
def test_codes_are_those_of_subword_nmt(counts, operations, min_frequency):
    counts["ab"] = counts.get("ab", 1)  # without a pair of letters subword-nmt breaks off
    expected = of_subword_nmt(counts, operations, min_frequency)
    assert of_ours(counts, operations, min_frequency) == expected


@pytest.mark.parametrize("seed", range(3))
def test_pairs_are_set_aside_as_by_subword_nmt(seed):
    """So many merges over so uneven counts that rare pairs are set aside and come back."""
    rng = random.Random(seed)
    syllables = ["".join(rng.choices("abcdeiou", k=rng.randint(1, 3))) for _ in range(40)]
    counts = {}
    for rank in range(1, 1200):
        counts["".join(rng.choices(syllables, k=rng.randint(1, 5)))] = 1 + 100_000 // rank**2
    assert of_ours(counts, 900, 2) == of_subword_nmt(counts, 900, 2)
