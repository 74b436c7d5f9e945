"""ROUGE against the definitions and the library, and what is done with several references."""

import re
from collections import Counter
from functools import cache
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from vaswani_plugin.metrics.rouge import KINDS, lead, rouge

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
    expected = {kind: [] for kind in KINDS}
    for hypothesis, group in zip(hypotheses, references, strict=True):
        scores = [by_definition(reference, hypothesis) for reference in group]
        for kind in KINDS:
            expected[kind].append(choose([score[kind] for score in scores]))
    found = rouge(hypotheses, references, over, stemming=False)
    assert found == {kind: pytest.approx(fmean(column)) for kind, column in expected.items()}


TEXTS = st.text(
    st.one_of(st.sampled_from("aeiouyst -.'\n"), st.characters(codec="utf-8")), max_size=60
)


@given(reference=TEXTS, hypothesis=TEXTS, stemming=st.booleans())
def test_as_the_library(reference, hypothesis, stemming):
    library = RougeScorer(KINDS, use_stemmer=stemming).score(reference, hypothesis)
    expected = {kind: pytest.approx(100 * library[kind].fmeasure) for kind in KINDS}
    assert rouge([hypothesis], [[reference]], stemming=stemming) == expected


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


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (([], []), "0 summaries"),
        ((["a"], [["a"], ["b"]]), "1 summaries and references of 2"),
        ((["a", "b"], [["a"], []]), "summary 2 has no reference"),
        ((["a"], [["a"]], "worst"), "must be best or mean"),
    ],
)
def test_what_can_not_be_scored(arguments, part):
    with pytest.raises(ValueError, match=part):
        rouge(*arguments)


def test_lead():
    assert lead(["One.", "Two.", "Three."], 2) == "One. Two."
    assert lead(["One."], 3) == "One." and lead([], 1) == ""
