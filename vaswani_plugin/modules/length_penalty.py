"""The length penalty of beam search (section 6.1)."""

from typing import Any


def length_penalty(length: Any, alpha: float) -> Any:
    """Wu et al. 2016, Eq. 14, used in section 6.1: lp(Y) = ((5 + |Y|) / 6)^alpha.

    Args:
        length: |Y|, tokens of the hypothesis, end of sentence included: a number or a tensor.
        alpha: the exponent; 0 ranks by probability alone; the paper uses 0.6.

    Returns:
        The divisor, of the same kind; 1 at length 1.
    """
    return ((5 + length) / 6) ** alpha
