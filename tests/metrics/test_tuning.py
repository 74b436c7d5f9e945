"""Weights tuned for BLEU: line search and oracle against brute force, counts against sacreBLEU."""

import itertools
import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from vaswani_plugin.metrics.tuning import Pool, bleu_of, count_ngrams, line_search, oracle, tune

WORDS = "a b c d e f g".split()


def corpus_bleu(texts: list[str], references: list[str]) -> float:
    return (
        BLEU(tokenize="none", smooth_method="none", force=True)
        .corpus_score(texts, [references])
        .score
    )


class Lists:
    """Made-up n-best lists: noisy copies of references, features that know a little of them."""

    def __init__(self, seed: int, sentences: int = 12, longest: int = 6, features: int = 2) -> None:
        rng = random.Random(seed)
        self.references = [
            " ".join(rng.choices(WORDS, k=rng.randint(6, 12))) for _ in range(sentences)
        ]
        self.texts, self.features = [], []
        for reference in self.references:
            row, numbers = [], []
            for _ in range(rng.randint(1, longest)):
                words = reference.split()
                errors = rng.randint(0, 4)
                for _ in range(errors):
                    words[rng.randrange(len(words))] = rng.choice(WORDS)
                row.append(" ".join(words[: rng.randint(4, len(words))]))
                numbers.append([rng.gauss(-errors, 2) for _ in range(features)])
            self.texts.append(row)
            self.features.append(np.array(numbers))
        counts = [
            np.stack([count_ngrams(text, [reference]) for text in row])
            for row, reference in zip(self.texts, self.references, strict=True)
        ]
        self.pool = Pool.of(self.features, counts)

    def bleu(self, weights: np.ndarray) -> float:
        """sacreBLEU of what these weights choose."""
        chosen = [
            row[int((features @ weights).argmax())]
            for row, features in zip(self.texts, self.features, strict=True)
        ]
        return corpus_bleu(chosen, self.references)

    def crossings(self, weights: np.ndarray, direction: np.ndarray) -> list[float]:
        """Every step at which two hypotheses of a sentence score the same."""
        found = set()
        for features in self.features:
            offsets, slopes = features @ weights, features @ direction
            for i, j in itertools.combinations(range(len(features)), 2):
                if slopes[i] != slopes[j]:
                    found.add((offsets[j] - offsets[i]) / (slopes[i] - slopes[j]))
        return sorted(found)


@pytest.mark.parametrize("seed", range(6))
def test_counts_add_up_to_sacrebleu(seed):
    lists = Lists(seed)
    chosen = [row[-1] for row in lists.texts]
    counts = sum(count_ngrams(t, [r]) for t, r in zip(chosen, lists.references, strict=True))
    assert bleu_of(counts) == pytest.approx(corpus_bleu(chosen, lists.references), abs=1e-9)


def test_counts_with_several_references_and_no_words():
    golds = ["a b c d e", "a b c"]
    assert count_ngrams("a b b d", golds)[-2:].tolist() == [4, 3]  # the shorter of equally close
    assert count_ngrams("a b c", golds)[:8].tolist() == [3, 2, 1, 0, 3, 2, 1, 0]
    nothing = count_ngrams("", golds)
    assert nothing[:9].tolist() == [0] * 9
    assert bleu_of(nothing) == 0 and bleu_of(nothing + count_ngrams("a b c d e", golds)) > 0


@pytest.mark.parametrize("seed", range(12))
def test_line_search_finds_the_best_of_all_steps(seed):
    lists = Lists(seed, features=3)
    generator = np.random.default_rng(seed)
    weights, direction = generator.normal(size=(2, 3))
    step, found = line_search(lists.pool, weights, direction)
    points = lists.crossings(weights, direction)
    edges = [points[0] - 2, *points, points[-1] + 2]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(edges)]
    best = max(lists.bleu(weights + middle * direction) for middle in middles)
    assert found == pytest.approx(best, abs=1e-9)
    assert lists.bleu(weights + step * direction) == pytest.approx(found, abs=1e-9)
    if step == 0:
        assert lists.bleu(weights) == pytest.approx(best, abs=1e-9)


def test_line_search_along_what_changes_nothing():
    lists = Lists(1)
    weights = np.array([1.0, 1.0])
    for direction in (np.zeros(2), weights):  # the same order at every step above -1
        step, found = line_search(lists.pool, weights, direction)
        assert lists.bleu(weights + step * direction) == pytest.approx(found, abs=1e-9)
    assert line_search(lists.pool, weights, np.zeros(2)) == (
        0.0,
        pytest.approx(lists.bleu(weights)),
    )


def test_equal_hypotheses_are_chosen_as_they_are_listed():
    """Two with the same features: the search counts the one that `choose` takes."""
    reference = "a b c d e"
    texts = [["x y z w v", reference], [reference]]
    features = [np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([[0.0, 0.0]])]
    counts = [np.stack([count_ngrams(t, [reference]) for t in row]) for row in texts]
    pool = Pool.of(features, counts)
    weights = np.array([1.0, 0.0])
    assert pool.choose(weights).tolist() == [0, 0]
    step, found = line_search(pool, weights, np.array([0.0, 1.0]))
    assert (step, found) == (0.0, pytest.approx(pool.bleu(np.array([0, 0]))))


@pytest.mark.parametrize("seed", range(4))
def test_tuning_two_features_reaches_the_grid(seed):
    """All directions of two weights, half a degree apart."""
    lists = Lists(seed, sentences=20)
    tuned = tune(lists.pool, np.array([1.0, 1.0]), restarts=4, seed=1)
    assert np.abs(tuned).sum() == pytest.approx(1)
    angles = np.radians(np.arange(0, 360, 0.5))
    grid = max(lists.bleu(np.array([np.cos(a), np.sin(a)])) for a in angles)
    assert lists.bleu(tuned) >= grid - 1e-9
    assert lists.bleu(tuned) > lists.bleu(np.array([1.0, 1.0]))


def test_tuning_repeats_by_its_seed_and_never_loses():
    lists = Lists(9, sentences=30, features=4)
    start = np.array([1.0, 0.0, 0.0, 0.0])
    first, again = (tune(lists.pool, start, restarts=3, seed=5) for _ in range(2))
    assert first.tolist() == again.tolist()
    assert lists.bleu(first) >= lists.bleu(start)
    constant = Pool(np.ones_like(lists.pool.features), lists.pool.counts, lists.pool.valid)
    assert tune(constant, start, restarts=2, seed=1).tolist() == start.tolist()


def test_tuning_leaves_a_start_of_no_bleu():
    """The start chooses what shares no word with the reference."""
    texts = ["a b c d e f", "v w x y z u"]
    counts = [np.stack([count_ngrams(text, texts[:1]) for text in texts])]
    pool = Pool.of([np.array([[0.0, 1.0], [1.0, 0.0]])], counts)
    start = np.array([1.0, 0.0])
    assert pool.bleu(pool.choose(start)) == 0
    assert pool.choose(tune(pool, start, restarts=0, seed=1)).tolist() == [0]


@pytest.mark.parametrize("seed", range(5))
def test_oracle_is_what_enumeration_finds(seed):
    lists = Lists(seed, sentences=5, longest=4)
    best = max(
        corpus_bleu(list(choice), lists.references) for choice in itertools.product(*lists.texts)
    )
    assert lists.pool.bleu(oracle(lists.pool)) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(("seed", "sentences"), [(17, 60), (7, 12)])
def test_no_exchange_betters_the_oracle(seed, sentences):
    """Of these lists, one look at each sentence is not enough."""
    pool = Lists(seed, sentences).pool
    chosen = oracle(pool)
    best = pool.bleu(chosen)
    for row, column in zip(*pool.valid.nonzero(), strict=True):
        other = chosen.copy()
        other[row] = column
        assert pool.bleu(other) <= best + 1e-9


def test_oracle_chooses_hypotheses_that_are_there():
    lists = Lists(3, sentences=40)
    chosen = oracle(lists.pool)
    assert all(k < len(row) for k, row in zip(chosen, lists.texts, strict=True))
    texts = [row[k] for k, row in zip(chosen, lists.texts, strict=True)]
    score = corpus_bleu(texts, lists.references)
    assert lists.pool.bleu(chosen) == pytest.approx(score, abs=1e-9)
    for weights in np.random.default_rng(1).normal(size=(20, 2)):
        assert score >= lists.bleu(weights) - 1e-9
