"""Weights of features that choose among hypotheses, tuned for BLEU (Och 2003), and the oracle.

Along a line of weights each hypothesis' score is a straight line, so that what is best of a
sentence changes at few points, and BLEU of the corpus is constant between the points of all
sentences: the best point of the line is found exactly.

Axes: N sentences, K hypotheses of the longest list, F features, M points of a line.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics import BLEU

ORDERS = 4
COUNTS = 2 * ORDERS + 2
"""Matches and totals of each order, output length, reference length."""

# sacreBLEU's corpus score is made of the same counts; the words are what spaces divide.
_COUNTER = BLEU(tokenize="none", smooth_method="none", effective_order=True)
TINY_GAIN = 1e-9


def count_ngrams(hypothesis: str, references: Sequence[str]) -> np.ndarray:
    """What BLEU counts of a sentence, (COUNTS,): they add up over a corpus.

    Args:
        hypothesis: words divided by spaces.
        references: one or more of them.
    """
    found = _COUNTER.sentence_score(hypothesis, references)
    return np.array([*found.counts, *found.totals, found.sys_len, found.ref_len])


def bleu_of(counts: np.ndarray) -> np.ndarray:
    """BLEU from 0 to 100, unsmoothed, of counts (..., COUNTS); 0 where some order has no match."""
    matches, totals = counts[..., :ORDERS], counts[..., ORDERS : 2 * ORDERS]
    output, reference = counts[..., -2], counts[..., -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.log(matches / totals).mean(axis=-1)
        brevity = np.minimum(0.0, 1 - reference / output)
    return np.where((matches > 0).all(axis=-1), 100 * np.exp(precision + brevity), 0.0)


@dataclass(frozen=True)
class Pool:
    """The lists of all sentences, filled up to one length.

    Args:
        features: (N, K, F).
        counts: (N, K, COUNTS).
        valid: (N, K), False at what fills a shorter list.
    """

    features: np.ndarray
    counts: np.ndarray
    valid: np.ndarray

    @classmethod
    def of(cls, features: Sequence[np.ndarray], counts: Sequence[np.ndarray]) -> "Pool":
        """Of the lists' own (K_i, F) and (K_i, COUNTS), none of them empty."""
        longest = max(map(len, features))
        return cls(
            np.stack([_filled(rows.astype(np.float64), longest) for rows in features]),
            np.stack([_filled(rows, longest) for rows in counts]),
            np.stack([np.arange(longest) < len(rows) for rows in features]),
        )

    def choose(self, weights: np.ndarray) -> np.ndarray:
        """The best of each list by the weighted sum of its features, (N,); the first of equals."""
        return np.where(self.valid, self.features @ weights, -np.inf).argmax(axis=1)

    def bleu(self, chosen: np.ndarray) -> float:
        """BLEU of one hypothesis of each list, (N,)."""
        return float(bleu_of(self.counts[np.arange(len(chosen)), chosen].sum(axis=0)))


def _filled(rows: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([rows, np.zeros((length - len(rows), rows.shape[1]), rows.dtype)])


def line_search(pool: Pool, weights: np.ndarray, direction: np.ndarray) -> tuple[float, float]:
    """The step with the best BLEU at weights + step x direction, over all steps there are.

    Args:
        pool: the lists.
        weights: (F,).
        direction: (F,).

    Returns:
        The step, 0 where nothing is better, else the middle of the best interval (at an open
        end, 1 beyond the last point); and its BLEU.
    """
    points, changes, counts = _envelopes(pool, pool.features @ weights, pool.features @ direction)
    order = points.argsort(kind="stable")
    points = points[order]
    totals = counts + np.concatenate([np.zeros((1, COUNTS), int), changes[order].cumsum(axis=0)])
    if not len(points):
        return 0.0, float(bleu_of(totals[0]))
    edges = np.concatenate([[points[0] - 2], points, [points[-1] + 2]])
    scores = np.where(np.diff(edges) > 1e-12 * np.abs(edges[1:]), bleu_of(totals), -1.0)
    here = scores[np.searchsorted(points, 0.0)]
    best = int(scores.argmax())
    if scores[best] <= here + TINY_GAIN:
        return 0.0, float(here)
    return float((edges[best] + edges[best + 1]) / 2), float(scores[best])


def _envelopes(
    pool: Pool, offsets: np.ndarray, slopes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where on the line the best hypotheses change.

    Args:
        pool: the lists.
        offsets: (N, K), scores at step 0.
        slopes: (N, K), what a step of 1 adds to them.

    Returns:
        The points (M,) of all sentences, what each changes in the counts (M, COUNTS), and the
        counts before the first of them (COUNTS,).
    """
    offsets = np.where(pool.valid, offsets, -np.inf)
    rows = np.arange(len(offsets))
    least = np.where(pool.valid, slopes, np.inf).min(axis=1, keepdims=True)
    now = np.where(pool.valid & (slopes == least), offsets, -np.inf).argmax(axis=1)
    start = pool.counts[rows, now].sum(axis=0)
    points, changes = [], []
    while len(rows):
        own, own_slope = offsets[rows, now][:, None], slopes[rows, now][:, None]
        steeper = slopes[rows] > own_slope
        rise = np.where(steeper, slopes[rows] - own_slope, 1.0)
        crossing = np.where(steeper, (own - offsets[rows]) / rise, np.inf)
        first = crossing.min(axis=1, keepdims=True)
        # Of several that cross there the steepest is best from there on.
        after = np.where(crossing == first, slopes[rows], -np.inf).argmax(axis=1)
        go_on = np.isfinite(first[:, 0])
        rows, now, after = rows[go_on], now[go_on], after[go_on]
        points.append(first[go_on, 0])
        changes.append(pool.counts[rows, after] - pool.counts[rows, now])
        now = after
    return np.concatenate(points), np.concatenate(changes), start


def tune(pool: Pool, start: np.ndarray, restarts: int, seed: int) -> np.ndarray:
    """Weights with the best BLEU that line searches find.

    From each start along every feature, and along as many random directions, again and again
    until no step helps. With two features the first line alone holds every choice but its sign.

    Args:
        pool: the lists of a development set.
        start: (F,), one of the starts.
        restarts: number of random ones besides.
        seed: of those, and of the directions.

    Returns:
        (F,), absolute values summing to 1.
    """
    generator = np.random.default_rng(seed)
    spread = pool.features[pool.valid].std(axis=0)
    spread[spread == 0] = 1.0  # a feature that is the same everywhere changes nothing
    count = len(start)
    starts = [start, *(generator.normal(size=count) / spread for _ in range(restarts))]
    best, best_score = start, pool.bleu(pool.choose(start))
    for weights in starts:
        weights = _climb(pool, weights, spread, generator)
        score = pool.bleu(pool.choose(weights))
        if score > best_score + TINY_GAIN:
            best, best_score = weights, score
    return best / np.abs(best).sum()


def _climb(
    pool: Pool, weights: np.ndarray, spread: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    score, before = pool.bleu(pool.choose(weights)), -1.0
    while score > before + TINY_GAIN:
        before = score
        random = generator.normal(size=(len(weights), len(weights)))
        for direction in np.concatenate([np.eye(len(weights)), random]) / spread:
            step, found = line_search(pool, weights, direction)
            if found > score + TINY_GAIN:
                weights, score = weights + step * direction, found
    return weights


def oracle(pool: Pool) -> np.ndarray:
    """The choice (N,) with the best BLEU, as far as exchanging one hypothesis at a time finds it.

    A lower bound: the true best is a search over all combinations. It begins with what is best
    of each sentence by itself (BLEU with 1 added to the counts above the first order).
    """
    rows = np.arange(len(pool.counts))
    added = np.zeros(COUNTS)
    added[1:ORDERS] = added[ORDERS + 1 : 2 * ORDERS] = 1
    chosen = bleu_of(pool.counts + added).argmax(axis=1)  # what fills a list scores 0, and is last
    total = pool.counts[rows, chosen].sum(axis=0)
    changed = True
    while changed:
        changed = False
        for row in rows:
            others = total - pool.counts[row, chosen[row]]
            scores = np.where(pool.valid[row], bleu_of(others + pool.counts[row]), -1.0)
            better = int(scores.argmax())
            if scores[better] > scores[chosen[row]] + TINY_GAIN:
                chosen[row] = better
                total = others + pool.counts[row, better]
                changed = True
    return chosen
