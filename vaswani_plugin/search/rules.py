"""The scores of hypotheses and the end of a search: the authors' rules, and fairseq's.

Axes: B searches (of sentences, or of groups of beams), W hypotheses kept by each.
"""

import math

import torch
from torch import Tensor

from vaswani_plugin.modules.length_penalty import length_penalty


class PaperRules:
    """Section 6.1 and the authors' code.

    Each step has 2 W candidates, and each of them may end. Of all finished hypotheses, the W with
    the best scores log P / lp are kept. A search is done when the best unfinished hypothesis, with
    the most favourable penalty that it can still reach, can't beat the worst kept hypothesis. If
    only the best `wanted` hypotheses are needed, the worst of those is compared instead: the search
    ends earlier with the same result. A beam of 1 is greedy and stops at the first end of sentence.

    Every sentence has its own limit, so its translation doesn't depend on the rest of the batch.

    Args:
        alpha: exponent of the length penalty; 0 scores by log P alone.
        wanted: how many of the kept hypotheses are needed; None: all.
    """

    by_sentence = True

    def __init__(self, alpha: float, wanted: int | None = None) -> None:
        self.alpha = alpha
        self.wanted = wanted

    def may_end(self, beam: int) -> int:
        """Return how many of a step's candidates, the likeliest first, may end; `beam` is W."""
        return 2 * beam if beam > 1 else 1

    def score(self, log_probabilities: Tensor, length: int) -> Tensor:
        """Scores of hypotheses of `length` tokens, end of sentence included."""
        return log_probabilities / length_penalty(length, self.alpha)

    def rank(self, scores: Tensor, step: int) -> Tensor:
        """Rank finished hypotheses, (B, W) -> (B, W); the greatest ranks are kept."""
        return scores

    def done(self, kept: Tensor, best_open: Tensor, step: int, limits: Tensor) -> Tensor:
        """Return which searches can't improve.

        Args:
            kept: ranks of the kept hypotheses, best first, -inf where there is none, (B, W).
            best_open: greatest log P of an unfinished hypothesis, (B,).
            step: tokens of every unfinished hypothesis, less one.
            limits: greatest number of tokens before the end of sentence, (B,).

        Returns:
            Boolean (B,).
        """
        if kept.size(1) == 1:
            return kept[:, 0] > -math.inf
        worst = kept[:, min(self.wanted or kept.size(1), kept.size(1)) - 1]
        bound = best_reachable_score(best_open, step + 2, limits + 1, self.alpha)
        return (worst > -math.inf) & (worst >= bound)


class FairseqRules:
    """fairseq's rules: the first W hypotheses that end are kept, and then the search is done.

    Of the 2 W candidates of a step only the first W may end. The longest source of a batch sets the
    limit of all its sentences.

    Args:
        exponent: scores are log P / |Y|^exponent; 0 scores by log P alone.
    """

    by_sentence = False

    def __init__(self, exponent: float) -> None:
        self.exponent = exponent

    def may_end(self, beam: int) -> int:
        """See `PaperRules.may_end`."""
        return beam

    def score(self, log_probabilities: Tensor, length: int) -> Tensor:
        """Scores of hypotheses of `length` tokens, end of sentence included."""
        return log_probabilities / length**self.exponent

    def rank(self, scores: Tensor, step: int) -> Tensor:
        """Rank finished hypotheses, (B, W) -> (B, W); earlier ones rank higher."""
        width = scores.size(1)
        arrival = step * width + torch.arange(width, device=scores.device, dtype=scores.dtype)
        return scores.new_zeros(scores.shape).sub_(arrival)

    def done(self, kept: Tensor, best_open: Tensor, step: int, limits: Tensor) -> Tensor:
        """See `PaperRules.done`."""
        return kept[:, -1] > -math.inf


def best_reachable_score(
    log_probability: float | Tensor, length: int, limit: int | Tensor, alpha: float
) -> float | Tensor:
    """Compute the best score that an unfinished hypothesis can still reach.

    log P never grows as tokens are added. With alpha > 0 the penalty is most favourable at
    the longest output, with alpha < 0 at the shortest.

    Args:
        log_probability: log P of the tokens so far, at most 0.
        length: the least length it can end with.
        limit: the greatest length it can end with.
        alpha: exponent of the penalty.

    Returns:
        An upper bound of log P / lp over all continuations of the hypothesis.
    """
    favourable = limit if alpha > 0 else length
    return log_probability / length_penalty(favourable, alpha)
