"""The BLEU formula against sacreBLEU and a count in the open; multi-bleu.perl's corner cases."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from vaswani_plugin.metrics.bleu_formula import bleu, brevity_penalty, count_words

HYPOTHESES = ["the cat sat on the mat .", "a dog barks at night ."]
REFERENCES = ["the cat sat on a mat .", "the dog barks at night ."]

LINE = st.lists(st.sampled_from("abcd"), max_size=12).map(" ".join)
TRIPLES = st.lists(st.tuples(LINE, LINE, LINE), min_size=1, max_size=5)


def plain_bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU of Papineni et al. 2002, counted in the open: orders 1 to 4, brevity penalty."""
    matches, totals = Counter(), Counter()
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        words, gold = hypothesis.split(), reference.split()
        for n in range(1, 5):
            ours = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
            theirs = Counter(tuple(gold[i : i + n]) for i in range(len(gold) - n + 1))
            matches[n] += sum((ours & theirs).values())
            totals[n] += sum(ours.values())
    if 0 in [matches[n] for n in range(1, 5)]:
        return 0.0
    length = sum(len(line.split()) for line in hypotheses)
    gold_length = sum(len(line.split()) for line in references)
    penalty = min(0.0, 1 - gold_length / length)
    precision = sum(math.log(matches[n] / totals[n]) for n in range(1, 5)) / 4
    return 100 * math.exp(penalty + precision)


def test_formula_by_hand() -> None:
    # (1/2 * 1/4 * 1/8 * 1/64)^(1/4) = 2^-3; nine reference words for six: exp(-1/2).
    assert bleu([1 / 2, 1 / 4, 1 / 8, 1 / 64], 9, 9) == pytest.approx(2**-3)
    expected = 2**-3 * math.exp(-0.5)
    assert bleu([1 / 2, 1 / 4, 1 / 8, 1 / 64], 6, 9) == pytest.approx(expected)
    assert bleu([0.25], 1, 1) == pytest.approx(0.25)


def test_brevity_penalty_never_rewards() -> None:
    assert brevity_penalty(10, 5) == 1.0
    assert brevity_penalty(10, 10) == 1.0
    assert brevity_penalty(5, 10) == pytest.approx(math.exp(-1))
    assert brevity_penalty(0, 10) == brevity_penalty(0, 0) == 0.0


def test_a_precision_of_zero_makes_zero() -> None:
    assert bleu([1.0, 0.5, 0.0, 0.0], 10, 10) == 0.0


def test_score_is_the_count_in_the_open() -> None:
    for hypotheses in (HYPOTHESES, ["the cat sat on", "the dog barks at night"], REFERENCES):
        expected = plain_bleu(hypotheses, REFERENCES)
        assert 20 < expected
        assert count_words(hypotheses, [REFERENCES]).score == pytest.approx(expected, abs=1e-9)


@settings(max_examples=200, deadline=None)
@given(TRIPLES, st.integers(1, 6))
def test_counts_and_score_are_sacrebleus(triples: list, orders: int) -> None:
    hypotheses, *references = (list(lines) for lines in zip(*triples, strict=True))
    ours = count_words(hypotheses, references, orders=orders)
    metric = BLEU(tokenize="none", smooth_method="none", max_ngram_order=orders, force=True)
    theirs = metric.corpus_score(hypotheses, references)
    assert list(ours.matches) == theirs.counts
    assert list(ours.totals) == theirs.totals
    assert (ours.output_length, ours.reference_length) == (theirs.sys_len, theirs.ref_len)
    assert ours.score == pytest.approx(theirs.score, abs=1e-9)


def test_long_texts_agree_with_sacrebleu() -> None:
    rng = random.Random(5)
    references = [" ".join(rng.choices("abcdefghij", k=rng.randint(1, 40))) for _ in range(200)]
    hypotheses = [line.replace("a", "b")[: rng.randint(20, 90)].strip() for line in references]
    theirs = BLEU(tokenize="none", smooth_method="none", force=True)
    expected = theirs.corpus_score(hypotheses, [references]).score
    assert 10 < expected < 90
    assert count_words(hypotheses, [references]).score == pytest.approx(expected, abs=1e-9)


def test_of_two_equally_close_references_the_shorter_counts() -> None:
    counts = count_words(["a b c"], [["a b"], ["a b c d"]])
    assert (counts.output_length, counts.reference_length) == (3, 2)
    assert count_words(["a b c"], [["a b c d"], ["a"]]).reference_length == 4


def test_a_match_counts_as_often_as_its_best_reference() -> None:
    assert count_words(["a a a a"], [["a a x"], ["a y"]]).matches == (2, 1, 0, 0)


def test_words_are_divided_by_ascii_space_alone() -> None:
    # As in Perl over bytes; str.split would cut at a no-break space and at U+2028.
    line = " a\tb\u00a0c  d\u2028e \x0b f\x85g"
    counts = count_words([line], [[line]])
    assert counts.output_length == len(["a", "b\u00a0c", "d\u2028e", "f\x85g"])
    assert counts.score == pytest.approx(100.0)


def test_lowercase_is_of_ascii_letters() -> None:
    counts = count_words(["THE Über"], [["the über"]], lowercase=True)
    assert counts.matches[0] == 1
    assert count_words(["THE Über"], [["the über"]]).matches[0] == 0


def test_nothing_to_count_is_zero() -> None:
    assert count_words([""], [["a b c d"]]).score == 0.0
    assert count_words(["a b c d"], [[""]]).score == 0.0
    assert count_words(["a b c"], [["a b c"]]).score == 0.0  # no 4-gram at all
