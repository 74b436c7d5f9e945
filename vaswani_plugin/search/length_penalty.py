"""What divides log P(Y|X) in a hypothesis's score, so that long outputs are not at a disadvantage.

Lengths |Y| count the end of sentence. They and log-probabilities may be numbers or tensors.
"""

from torch import Tensor


def length_penalty(length: int | Tensor, alpha: float) -> float | Tensor:
    """Wu et al. 2016, Eq. 14, used in section 6.1: lp(Y) = ((5 + |Y|) / 6)^alpha.

    Args:
        length: |Y|, tokens of the hypothesis, end of sentence included.
        alpha: 0 ranks by probability alone; the paper takes 0.6.

    Returns:
        The divisor, 1 at length 1.
    """
    return ((5 + length) / 6) ** alpha


def fairseq_length_penalty(length: int | Tensor, exponent: float) -> float | Tensor:
    """fairseq's --lenpen: |Y|^exponent, 1 at length 1."""
    return length**exponent


def best_reachable_score(
    log_probability: float | Tensor, length: int, limit: int | Tensor, alpha: float
) -> float | Tensor:
    """The best score that an unfinished hypothesis can still reach.

    log P only falls as tokens are added. With alpha > 0 the penalty is most favourable at
    the longest output, with alpha < 0 at the shortest.

    Args:
        log_probability: log P of the tokens so far, at most 0.
        length: the least length it can end with.
        limit: the greatest length it can end with.
        alpha: exponent of the penalty.

    Returns:
        An upper bound of log P / lp over all its continuations.
    """
    favourable = limit if alpha > 0 else length
    return log_probability / length_penalty(favourable, alpha)
