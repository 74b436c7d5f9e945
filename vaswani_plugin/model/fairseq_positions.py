"""fairseq's positional encoding, for models with fairseq's weights.

Axes: D d_model.
"""

import torch
from torch import Tensor

FAIRSEQ_FIRST_POSITION = 2
"""fairseq numbers positions from padding_idx + 1, which is 2 with its dictionaries."""


def fairseq_sinusoids(positions: Tensor, d_model: int) -> Tensor:
    """Compute the encoding of fairseq and of the authors' code: all sines, then all cosines.

    The exponent is i/(D/2 - 1). As in fairseq, the first position is number 2.

    Args:
        positions: any shape, counted from 0.
        d_model: D, even and at least 4.

    Returns:
        Float64, the shape of `positions` + (D,).

    Raises:
        ValueError: when d_model is odd or below 4.
    """
    if d_model % 2 or d_model < 4:
        raise ValueError(f"d_model is {d_model}; fairseq's sinusoids need an even one, at least 4")
    half = d_model // 2
    i = torch.arange(half, dtype=torch.float64, device=positions.device)
    angles = (positions.double()[..., None] + FAIRSEQ_FIRST_POSITION) / 10000 ** (i / (half - 1))
    return torch.cat((angles.sin(), angles.cos()), dim=-1)
