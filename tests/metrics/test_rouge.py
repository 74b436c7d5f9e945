"""ROUGE-Lsum by hand, text in every script, and what is done with several references."""

import sys
from statistics import fmean

import pytest

from vaswani_plugin.errors import UserError
from vaswani_plugin.metrics.rouge import KINDS, rouge


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


@pytest.mark.parametrize("text", ["房子在山上，离海不远。", "Кошка сидела"])
def test_other_scripts_are_an_error_and_no_0(text):
    for others in (["a", text], [text, f"{text} 2020"]):
        with pytest.raises(UserError, match="mostly of other letters than a to z"):
            rouge(others, [[other] for other in others])
    english = ["The mill burned down."] * 9
    assert rouge([*english, text], [[line] for line in (*english, text)])["rouge1"] == 90
    assert rouge([text], [["models"]])["rouge1"] == 0.0


def test_what_needs_the_library_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(ValueError, match="pip install rouge-score"):
        rouge(["a"], [["a"]])


def test_stems_and_empty_summaries():
    pair = (["The birds were singing", ""], [["a bird sings"], ["a b"]])
    assert rouge(*pair, stemming=False)["rouge1"] == 0.0
    assert rouge(*pair)["rouge1"] == pytest.approx(200 * 2 / 7 / 2)


def test_each_kind_takes_its_own_best_reference():
    references = ["b a d c", "a x b y c z"]
    found = rouge(["a b c d"], [references])
    single = [rouge(["a b c d"], [[reference]]) for reference in references]
    assert single[0]["rouge1"] > single[1]["rouge1"] and single[0]["rougeL"] < single[1]["rougeL"]
    assert found == {kind: max(score[kind] for score in single) for kind in KINDS}
    mean = rouge(["a b c d"], [references], over="mean")
    assert mean == pytest.approx({kind: fmean(score[kind] for score in single) for kind in KINDS})
