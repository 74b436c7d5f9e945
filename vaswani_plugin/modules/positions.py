"""Positional encodings (section 3.5): sinusoids, and the learned ones of Table 3 (E).

Axes: B batch, T positions, D d_model.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FAIRSEQ_FIRST_POSITION = 2
"""fairseq numbers positions from padding_idx + 1, which is 2 with its dictionaries."""


def sinusoids(positions: Tensor, d_model: int) -> Tensor:
    """The paper's encoding: PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(same).

    Args:
        positions: any shape, counted from 0.
        d_model: D, even.

    Returns:
        Float64, the shape of `positions` + (D,).

    Raises:
        ValueError: when d_model is odd.
    """
    _require_even(d_model)
    exponents = torch.arange(0, d_model, 2, dtype=torch.float64) / d_model  # 2i/D
    angles = positions.double()[..., None] / 10000**exponents
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def fairseq_sinusoids(positions: Tensor, d_model: int) -> Tensor:
    """The encoding of fairseq and of the authors' code: all sines, then all cosines.

    The exponent is i/(D/2 - 1) and, in fairseq, the first position is number 2. Needed to
    load fairseq's weights.

    Args:
        positions: any shape, counted from 0.
        d_model: D, even and at least 4.

    Returns:
        Float64, the shape of `positions` + (D,).

    Raises:
        ValueError: when d_model is odd or below 4.
    """
    _require_even(d_model)
    half = d_model // 2
    if half < 2:
        raise ValueError(f"d_model is {d_model}; fairseq's sinusoids need at least 4")
    exponents = torch.arange(half, dtype=torch.float64) / (half - 1)
    angles = (positions.double()[..., None] + FAIRSEQ_FIRST_POSITION) / 10000**exponents
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


def _require_even(d_model: int) -> None:
    if d_model % 2:
        raise ValueError(f"d_model is {d_model}; sinusoidal positions need an even width")


def position_ids(tokens: Tensor, padding_idx: int) -> Tensor:
    """Number the real tokens of each row from 0, whichever side the padding is on.

    Args:
        tokens: (B, T).
        padding_idx: the number of the padding token.

    Returns:
        (B, T); what stands at padding is a valid position without meaning.
    """
    return (tokens.ne(padding_idx).cumsum(dim=1) - 1).clamp(min=0)


class SinusoidalPositions(nn.Module):
    """A table of sinusoids, made in float64 and kept out of the checkpoint.

    Args:
        max_positions: how many positions the table has.
        d_model: D.
        encoding: `sinusoids` or `fairseq_sinusoids`.
    """

    def __init__(self, max_positions: int, d_model: int, encoding=sinusoids) -> None:
        super().__init__()
        table = encoding(torch.arange(max_positions), d_model)
        self.register_buffer("table", table.to(torch.get_default_dtype()), persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """(B, T) position numbers -> (B, T, D)."""
        return F.embedding(positions, self.table)


class LearnedPositions(nn.Module):
    """Table 3 (E): "learned positional embedding instead of sinusoids".

    Args:
        max_positions: how many positions the table has.
        d_model: D.
    """

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, positions: Tensor) -> Tensor:
        """(B, T) position numbers -> (B, T, D)."""
        return F.embedding(positions, self.weight)
