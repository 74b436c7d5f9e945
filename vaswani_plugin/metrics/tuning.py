"""Feature weights for n-best lists, tuned for BLEU (MERT, Och 2003), and the oracle.

Along a line in the space of weights, the score of each hypothesis is a linear function. So the best
hypothesis of a sentence changes at few points, and corpus BLEU is constant between the points of
all sentences. The best point of the line is therefore found exactly.

Axes: N sentences, K hypotheses of the longest list, F features, M points of a line.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.bleu import BLEU

ORDERS = 4
COUNTS = 2 * ORDERS + 2
"""Matches and totals of each order, output length, reference length."""

# sacreBLEU's corpus score uses the same counts; words are separated by spaces.
_COUNTER = BLEU(tokenize="none", smooth_method="none", effective_order=True)
TINY_GAIN = 1e-9


def count_ngrams(hypothesis: str, references: Sequence[str]) -> np.ndarray:
    """A sentence's counts for BLEU, (COUNTS,); a corpus has their sum.

    Args:
        hypothesis: words, separated by spaces.
        references: one or more, likewise.
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
    """The n-best lists of all sentences, padded to the same length.

    Args:
        features: (N, K, F).
        counts: (N, K, COUNTS).
        valid: (N, K), False at padding.
    """

    features: np.ndarray
    counts: np.ndarray
    valid: np.ndarray

    @classmethod
    def of(cls, features: Sequence[np.ndarray], counts: Sequence[np.ndarray]) -> "Pool":
        """A pool from the features (K_i, F) and counts (K_i, COUNTS) of lists that aren't empty."""
        longest = max(map(len, features))
        return cls(
            np.stack([_filled(rows.astype(np.float64), longest) for rows in features]),
            np.stack([_filled(rows, longest) for rows in counts]),
            np.stack([np.arange(longest) < len(rows) for rows in features]),
        )

    def choose(self, weights: np.ndarray) -> np.ndarray:
        """The index of each list's best hypothesis by the weighted sum, (N,); ties: the first."""
        return np.where(self.valid, self.features @ weights, -np.inf).argmax(axis=1)

    def bleu(self, chosen: np.ndarray) -> float:
        """Corpus BLEU of the hypotheses with the indices `chosen`, (N,)."""
        return float(bleu_of(self.counts[np.arange(len(chosen)), chosen].sum(axis=0)))


def _filled(rows: np.ndarray, length: int) -> np.ndarray:
    return np.concatenate([rows, np.zeros((length - len(rows), rows.shape[1]), rows.dtype)])


def line_search(pool: Pool, weights: np.ndarray, direction: np.ndarray) -> tuple[float, float]:
    """The step with the best BLEU at weights + step x direction, over all real numbers.

    Args:
        pool: the lists.
        weights: (F,).
        direction: (F,).

    Returns:
        The step and its BLEU. The step is 0 if no other is better. Else it is the middle of the
        best interval, or, if the interval is open, 1 beyond the last point.
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
    """The points of the line at which the best hypothesis of a sentence changes.

    Args:
        pool: the lists.
        offsets: (N, K), scores at step 0.
        slopes: (N, K), change of the scores by a step of 1.

    Returns:
        The points (M,) of all sentences, the change of the counts at each point (M, COUNTS), and
        the counts before the first point (COUNTS,).
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
        # If several hypotheses cross at this point, the steepest is the best one after it.
        after = np.where(crossing == first, slopes[rows], -np.inf).argmax(axis=1)
        go_on = np.isfinite(first[:, 0])
        rows, now, after = rows[go_on], now[go_on], after[go_on]
        points.append(first[go_on, 0])
        changes.append(pool.counts[rows, after] - pool.counts[rows, now])
        now = after
    return np.concatenate(points), np.concatenate(changes), start


def tune(pool: Pool, start: np.ndarray, restarts: int, seed: int) -> np.ndarray:
    """Weights with the best BLEU that line searches find.

    From each start, the searches run along every feature and along as many random directions, and
    repeat until no step helps. With two features, the first line covers all choices up to the sign.

    Args:
        pool: the lists of a development set.
        start: (F,), the first start.
        restarts: number of additional random starts.
        seed: of the random starts and directions.

    Returns:
        (F,), absolute values summing to 1.
    """
    generator = np.random.default_rng(seed)
    spread = pool.features[pool.valid].std(axis=0)
    spread[spread == 0] = 1.0  # a constant feature changes no choice
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
    """The choice (N,) with the best BLEU that changing one hypothesis at a time finds.

    This is a lower bound, because the true oracle needs a search over all combinations. It starts
    with the best hypothesis of each sentence (BLEU with 1 added to the counts above the first
    order).
    """
    rows = np.arange(len(pool.counts))
    added = np.zeros(COUNTS)
    added[1:ORDERS] = added[ORDERS + 1 : 2 * ORDERS] = 1
    chosen = bleu_of(pool.counts + added).argmax(axis=1)  # padding scores 0 and comes last
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
