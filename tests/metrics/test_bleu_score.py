"""sacreBLEU, chrF and tokenized BLEU as the commands use them; the reading of a score."""

import math

import pytest
from sacrebleu.metrics import CHRF

from vaswani_plugin.metrics.bleu import (
    chrf_metric,
    corpus_score,
    reading,
    sacrebleu_metric,
    tokenized_score,
)

HYPOTHESES = ["the cat sat on the mat .", "a dog barks at night ."]
REFERENCES = ["the cat sat on a mat .", "the dog barks at night ."]


def sacrebleu(hypotheses: list[str], references: list[str], **options: bool) -> float:
    return corpus_score(sacrebleu_metric(**options), hypotheses, [references]).score


def test_tokenized_score_is_not_smoothed() -> None:
    # Three words in common, no four in a row.
    assert tokenized_score(["a b c x d"], [["a b c y d"]]).score == 0.0
    assert sacrebleu(["a b c x d"], ["a b c y d"]) > 0.0


def test_tokenized_score_leaves_words_alone() -> None:
    assert tokenized_score(["one two three four."], [["one two three four ."]]).score == 0.0
    assert sacrebleu(["one two three four."], ["one two three four ."]) == 100.0


def test_lowercase_ignores_case() -> None:
    upper = [line.upper() for line in REFERENCES]
    assert sacrebleu(upper, REFERENCES) < 50
    assert sacrebleu(upper, REFERENCES, lowercase=True) == 100.0
    assert tokenized_score(upper, [REFERENCES]).score < 50
    assert tokenized_score(upper, [REFERENCES], lowercase=True).score == pytest.approx(100.0)
    assert corpus_score(chrf_metric(True), upper, [REFERENCES]).score == 100.0
    signature = corpus_score(sacrebleu_metric(True), upper, [REFERENCES]).signature
    assert "case:lc" in signature


def test_tokenized_text_draws_a_warning_unless_given_knowingly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = ["a b c d ."] * 200
    sacrebleu(lines, lines, knowingly=True)
    tokenized_score(lines, [lines])
    assert caplog.text == ""
    sacrebleu(lines, lines)
    assert "forgot to detokenize" in caplog.text


def test_signatures_name_what_was_counted() -> None:
    signature = corpus_score(sacrebleu_metric(), HYPOTHESES, [REFERENCES]).signature
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp" in signature
    two = corpus_score(sacrebleu_metric(), HYPOTHESES, [REFERENCES, HYPOTHESES])
    assert two.score == 100.0 and "nrefs:2" in two.signature
    assert "nc:6|nw:0" in corpus_score(chrf_metric(), HYPOTHESES, [REFERENCES]).signature


def test_chrf_is_chrf2_of_characters() -> None:
    expected = CHRF(char_order=6, word_order=0, beta=2).corpus_score(HYPOTHESES, [REFERENCES])
    assert corpus_score(chrf_metric(), HYPOTHESES, [REFERENCES]).score == expected.score


def test_differing_counts_and_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        sacrebleu(HYPOTHESES, REFERENCES[:1])
    with pytest.raises(ValueError, match="2 hypotheses but 3 references"):
        tokenized_score(HYPOTHESES, [REFERENCES, REFERENCES + ["more"]])
    with pytest.raises(ValueError, match="no segments"):
        tokenized_score([], [[]])


@pytest.mark.parametrize(
    ("score", "word"),
    [
        (0.0, "almost useless"),
        (9.99, "almost useless"),
        (10.0, "hard to get the gist"),
        (19.5, "hard to get the gist"),
        (20.0, "gist is clear"),
        (29.7, "gist is clear"),
        (30.0, "understandable to good"),
        (39.99, "understandable to good"),
        (40.0, "high quality translations"),
        (50.0, "very high quality"),
        (60.0, "very high quality"),
        (60.01, "better than human"),
        (100.0, "better than human"),
    ],
)
def test_reading_of_each_band_and_border(score: float, word: str) -> None:
    assert word in reading(score)


def test_readings_of_the_bands_differ() -> None:
    assert len({reading(score) for score in (5, 15, 25, 35, 45, 55, 65)}) == 7


@pytest.mark.parametrize("score", [-0.1, 100.1, math.nan, math.inf])
def test_reading_refuses_what_is_no_score(score: float) -> None:
    with pytest.raises(ValueError, match="no BLEU score"):
        reading(score)
