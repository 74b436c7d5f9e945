"""Bootstrap intervals and paired tests against a resampling by hand."""

import random
from collections.abc import Sequence

import numpy
import pytest
from sacrebleu.metrics import BLEU

from vaswani_plugin.metrics.bleu import chrf_metric, sacrebleu_metric
from vaswani_plugin.metrics.significance import bootstrap

WORDS = "the a cat dog house tree sees finds likes takes old new red green big small".split()


def corpus(seed: int, wrong: float, sentences: int = 60) -> tuple[list[str], list[str]]:
    """References, and hypotheses of which a share of the words is wrong."""
    rng = random.Random(seed)
    references = [rng.choices(WORDS, k=rng.randint(6, 14)) for _ in range(sentences)]
    hypotheses = [[w if rng.random() > wrong else "x" for w in line] for line in references]
    return [" ".join(line) for line in references], [" ".join(line) for line in hypotheses]


def resampled(hypotheses: Sequence[str], references: Sequence[str], samples: int) -> list[float]:
    """BLEU of test sets drawn from the test set, each scored anew."""
    rng = numpy.random.default_rng(7)
    metric, scores = BLEU(), []
    for _ in range(samples):
        chosen = rng.integers(len(references), size=len(references))
        golds = [[references[i] for i in chosen]]
        scores.append(metric.corpus_score([hypotheses[i] for i in chosen], golds).score)
    return scores


def test_interval_is_that_of_resampled_test_sets() -> None:
    references, hypotheses = corpus(1, wrong=0.2)
    (found,) = bootstrap([hypotheses], [references], {"bleu": sacrebleu_metric()})["bleu"]
    scores = resampled(hypotheses, references, 400)
    low, high = numpy.percentile(scores, [2.5, 97.5])
    assert found.score == BLEU().corpus_score(hypotheses, [references]).score
    assert found.mean == pytest.approx(numpy.mean(scores), abs=0.5)
    assert found.half_width == pytest.approx((high - low) / 2, rel=0.2)
    assert found.p_value is None


def test_more_sentences_are_surer() -> None:
    widths = []
    for sentences in (30, 480):
        references, hypotheses = corpus(2, 0.2, sentences)
        (found,) = bootstrap([hypotheses], [references], {"bleu": sacrebleu_metric()})["bleu"]
        widths.append(found.half_width)
    assert widths[1] == pytest.approx(widths[0] / 4, rel=0.4)  # 1 / sqrt(16)


def test_a_worse_system_is_told_from_an_equal_one() -> None:
    references, good = corpus(3, wrong=0.15)
    _, bad = corpus(3, wrong=0.4)
    same = list(good)
    same[0], same[1] = references[0], "x " + same[1]
    metrics = {"bleu": sacrebleu_metric(), "chrf": chrf_metric()}
    worse = bootstrap([good, bad], [references], metrics)
    equal = bootstrap([good, same], [references], metrics)
    for name in metrics:
        baseline, system = worse[name]
        assert baseline.p_value is None and system.p_value < 0.01
        assert system.score < baseline.score
        assert equal[name][1].p_value > 0.05


def test_the_same_start_gives_the_same_numbers() -> None:
    references, hypotheses = corpus(4, wrong=0.2)
    runs = [bootstrap([hypotheses], [references], {"b": sacrebleu_metric()}, 50) for _ in range(2)]
    assert runs[0] == runs[1]
