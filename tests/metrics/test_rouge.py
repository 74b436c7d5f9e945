"""ROUGE against the definitions, in every script, and what is done with several references."""

import re
import sys
from collections import Counter
from functools import cache
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaswani_plugin.errors import UserError
from vaswani_plugin.metrics.rouge import KINDS, rouge

WORDS = st.lists(st.sampled_from(["a", "bb", "ccc", "The", "9"]), max_size=7).map(" ".join)


def tokens(text: str) -> tuple[str, ...]:
    return tuple(re.findall("[a-z0-9]+", text.lower()))


def f1(overlap: int, expected: int, found: int) -> float:
    return 200 * overlap / (expected + found) if overlap else 0.0


def by_ngrams(size: int, reference: str, hypothesis: str) -> float:
    counts = []
    for words in (tokens(reference), tokens(hypothesis)):
        counts.append(Counter(words[n : n + size] for n in range(len(words) - size + 1)))
    return f1((counts[0] & counts[1]).total(), counts[0].total(), counts[1].total())


def by_subsequence(reference: str, hypothesis: str) -> float:
    left, right = tokens(reference), tokens(hypothesis)

    @cache
    def longest(i: int, j: int) -> int:
        if i == len(left) or j == len(right):
            return 0
        if left[i] == right[j]:
            return 1 + longest(i + 1, j + 1)
        return max(longest(i + 1, j), longest(i, j + 1))

    return f1(longest(0, 0), len(left), len(right))


def by_definition(reference: str, hypothesis: str) -> dict[str, float]:
    ngrams = {f"rouge{size}": by_ngrams(size, reference, hypothesis) for size in (1, 2)}
    return ngrams | {"rougeL": by_subsequence(reference, hypothesis)}


@given(
    hypotheses=st.lists(WORDS, min_size=2, max_size=2),
    references=st.lists(st.lists(WORDS, min_size=1, max_size=3), min_size=2, max_size=2),
    over=st.sampled_from(["best", "mean"]),
)
def test_by_definition(hypotheses, references, over):
    choose = max if over == "best" else fmean
    kinds = [kind for kind in KINDS if kind != "rougeLsum"]
    expected = {kind: [] for kind in kinds}
    for hypothesis, group in zip(hypotheses, references, strict=True):
        scores = [by_definition(reference, hypothesis) for reference in group]
        for kind in kinds:
            expected[kind].append(choose([score[kind] for score in scores]))
    found = rouge(hypotheses, references, over, stemming=False)
    del found["rougeLsum"]
    assert found == {kind: pytest.approx(fmean(column)) for kind, column in expected.items()}


@pytest.mark.parametrize("name", ["short", "sentences"])
def test_the_summary_level_joins_the_subsequences_of_sentences(name):
    """Lin (2004), section 3.2: the union of the longest common subsequences, by hand."""
    if name == "short":  # the example of the paper: w1 w2 and w1 w3 w5 of w1 w2 w3 w4 w5
        reference, hypothesis = "w1 w2 w3 w4 w5", "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5"
        recall, precision = 4 / 5, 4 / 10
    else:  # a line of several sentences is split after full stops
        reference = "A cat sat. The dog ran."
        hypothesis = "The dog ran. A cat sat."
        recall, precision = 1, 1
    scores = rouge([hypothesis], [[reference]], stemming=False)
    assert scores["rougeLsum"] == pytest.approx(200 * recall * precision / (recall + precision))
    assert scores["rougeL"] <= scores["rougeLsum"]


@pytest.mark.parametrize("text", ["房子在山上，离海不远。", "Кошка сидела", "बिल्ली चटाई पर"])
def test_other_scripts_are_an_error_and_no_0(text):
    for others in (["a", text], [text, f"{text} 2020"]):
        with pytest.raises(UserError, match="mostly of other letters than a to z"):
            rouge(others, [[other] for other in others])
    english = ["The mill burned down."] * 9
    assert rouge([*english, text], [[line] for line in (*english, text)])["rouge1"] == 90
    assert rouge([text], [["models"]])["rouge1"] == 0.0
    assert rouge(["The mill burned down, said Zoë."], [["The mill burned, said Zoë."]])["rouge1"]


def test_what_needs_the_library_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(ValueError, match="pip install rouge-score"):
        rouge(["a"], [["a"]])


def test_stems():
    pair = (["The birds were singing"], [["a bird sings"]])
    assert rouge(*pair, stemming=False)["rouge1"] == 0.0
    assert rouge(*pair)["rouge1"] == pytest.approx(200 * 2 / 7)


def test_each_kind_takes_its_own_best_reference():
    references = ["b a d c", "a x b y c z"]
    found = rouge(["a b c d"], [references])
    single = [rouge(["a b c d"], [[reference]]) for reference in references]
    assert single[0]["rouge1"] > single[1]["rouge1"] and single[0]["rougeL"] < single[1]["rougeL"]
    assert found == {kind: max(score[kind] for score in single) for kind in KINDS}


def test_an_empty_summary_scores_0():
    assert set(rouge([""], [["a b"]]).values()) == {0.0}
    assert rouge(["", "a b"], [["a b"], ["a b"]])["rougeL"] == 50.0
