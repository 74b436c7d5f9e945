"""BLEU against a count by hand and the scores of published systems; the reading of a score."""

import gzip
import json
import math
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import REPO
from vaswani_plugin.metrics.bleu import reading, sacrebleu_score, tokenized_score

SHARED = REPO.parent / "shared" / "data" / "bleu"
HYPOTHESES = ["the cat sat on the mat .", "a dog barks at night ."]
REFERENCES = ["the cat sat on a mat .", "the dog barks at night ."]


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


def test_tokenized_score_is_the_count_by_hand() -> None:
    expected = plain_bleu(HYPOTHESES, REFERENCES)
    assert 20 < expected < 90
    assert tokenized_score(HYPOTHESES, REFERENCES).score == pytest.approx(expected, abs=1e-9)


def test_short_hypotheses_pay_the_brevity_penalty() -> None:
    short = ["the cat sat on", "the dog barks at night"]
    expected = plain_bleu(short, REFERENCES)
    assert tokenized_score(short, REFERENCES).score == pytest.approx(expected, abs=1e-9)


def test_tokenized_score_is_not_smoothed() -> None:
    # Three words in common, no four in a row.
    assert plain_bleu(["a b c x d"], ["a b c y d"]) == 0.0
    assert tokenized_score(["a b c x d"], ["a b c y d"]).score == 0.0
    assert sacrebleu_score(["a b c x d"], ["a b c y d"]).score > 0.0


def test_tokenized_score_leaves_words_alone() -> None:
    assert tokenized_score(["one two three four."], ["one two three four ."]).score == 0.0
    assert sacrebleu_score(["one two three four."], ["one two three four ."]).score == 100.0


def test_lowercase_ignores_case() -> None:
    upper = [line.upper() for line in REFERENCES]
    for score in (sacrebleu_score, tokenized_score):
        assert score(upper, REFERENCES).score < 50
        assert score(upper, REFERENCES, lowercase=True).score == 100.0
    assert "case:lc" in sacrebleu_score(upper, REFERENCES, lowercase=True).signature


def test_tokenized_text_draws_a_warning_unless_given_knowingly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = ["a b c d ."] * 200
    sacrebleu_score(lines, lines, knowingly=True)
    tokenized_score(lines, lines)
    assert caplog.text == ""
    sacrebleu_score(lines, lines)
    assert "forgot to detokenize" in caplog.text


def test_signature_names_the_tokenization() -> None:
    assert "tok:13a|smooth:exp" in sacrebleu_score(HYPOTHESES, REFERENCES).signature
    assert "tok:none|smooth:none" in tokenized_score(HYPOTHESES, REFERENCES).signature


def test_differing_counts_and_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="2 hypotheses but 1 references"):
        sacrebleu_score(HYPOTHESES, REFERENCES[:1])
    with pytest.raises(ValueError, match="no segments"):
        tokenized_score([], [])


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


def _lines(name: str) -> list[str]:
    return gzip.decompress((SHARED / name).read_bytes()).decode().removesuffix("\n").split("\n")


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"NOT TESTED: no scored outputs in {SHARED}")
def test_scores_of_wmt17_systems() -> None:
    cases = json.loads(Path(SHARED, "expected.json").read_text(encoding="utf-8"))
    tools = {
        "sacrebleu 13a": (sacrebleu_score, False),
        "sacrebleu 13a lowercase": (sacrebleu_score, True),
        "sacrebleu tokenize=none": (tokenized_score, False),
    }
    checked = 0
    for case in cases:
        if case.get("tool") not in tools or not (SHARED / case["hyp"]).is_file():
            continue
        score, lowercase = tools[case["tool"]]
        result = score(_lines(case["hyp"]), _lines(case["ref"][0]), lowercase)
        assert result.score == pytest.approx(case["bleu"], abs=1e-9), case["case"]
        checked += 1
    assert checked >= 9
