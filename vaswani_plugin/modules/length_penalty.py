"""The length penalty of beam search (section 6.1)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def length_penalty(length: "int | Tensor", alpha: float) -> "float | Tensor":
    """Wu et al. 2016, Eq. 14, used in section 6.1: lp(Y) = ((5 + |Y|) / 6)^alpha.

    Args:
        length: |Y|, tokens of the hypothesis, end of sentence included.
        alpha: the exponent; 0 ranks by probability alone; the paper uses 0.6.

    Returns:
        The divisor, 1 at length 1.
    """
    return ((5 + length) / 6) ** alpha
