"""Positional encodings (section 3.5): sinusoids, and the learned ones of Table 3 (E).

Axes: B batch, T positions, D d_model.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def sinusoids(positions: Tensor, d_model: int) -> Tensor:
    """Compute PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D)).

    Args:
        positions: any shape, counted from 0.
        d_model: D, even.

    Returns:
        Float64, the shape of `positions` + (D,).

    Raises:
        ValueError: when d_model is odd.
    """
    if d_model % 2:
        raise ValueError(f"d_model is {d_model}; sinusoidal positions need an even width")
    even = torch.arange(0, d_model, 2, dtype=torch.float64, device=positions.device)  # 2i
    angles = positions.double()[..., None] / 10000 ** (even / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def position_ids(tokens: Tensor, padding_idx: int) -> Tensor:
    """Number the real tokens of each row of (B, T) from 0, whichever side the padding is on.

    At padding the number is a valid position without meaning.
    """
    return (tokens.ne(padding_idx).long().cumsum(dim=1) - 1).clamp(min=0)


class SinusoidalPositions(nn.Module):
    """A table of sinusoids, computed in float64 and not saved in checkpoints.

    Args:
        max_positions: rows of the table.
        d_model: D.
        encoding: (positions, d_model) -> float64 table, such as `sinusoids`.
    """

    def __init__(self, max_positions: int, d_model: int, encoding=sinusoids) -> None:
        super().__init__()
        table = encoding(torch.arange(max_positions, device=torch.get_default_device()), d_model)
        self.register_buffer("table", table.to(torch.get_default_dtype()), persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """(B, T) position numbers -> (B, T, D)."""
        return F.embedding(positions, self.table)


class LearnedPositions(nn.Module):
    """Table 3 (E): "learned positional embedding instead of sinusoids".

    Args:
        max_positions: rows of the table.
        d_model: D.
    """

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, positions: Tensor) -> Tensor:
        """(B, T) position numbers -> (B, T, D)."""
        return F.embedding(positions, self.weight)
