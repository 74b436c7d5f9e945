"""Embeddings, the pre-softmax projection (section 3.4), and positional encodings (section 3.5).

Axes: B batch, T positions, D d_model, V vocabulary.
"""

import math
from collections.abc import Callable
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Embedding(nn.Module):
    """One matrix that embeds tokens, scaled by sqrt(d_model), and projects to the vocabulary.

    To share the matrix (section 3.4), pass the same instance to encoder, decoder and projection.
    The projection has no bias.

    Args:
        vocabulary: V, rows of the matrix.
        d_model: D.
        padding_idx: row of the padding; it starts at 0 and gets no gradient from the inputs.
    """

    def __init__(self, vocabulary: int, d_model: int, padding_idx: int) -> None:
        super().__init__()
        self.padding_idx = padding_idx
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(torch.empty(vocabulary, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)
        nn.init.zeros_(self.weight[padding_idx])

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) token numbers -> (B, T, D)."""
        return self.scale * F.embedding(tokens, self.weight, padding_idx=self.padding_idx)

    def project(self, x: Tensor) -> Tensor:
        """(..., D) -> logits (..., V): the pre-softmax linear transformation."""
        return F.linear(x, self.weight)


def sinusoids(positions: Tensor, d_model: int) -> Tensor:
    """Compute PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D)).

    Args:
        positions: any shape, counted from 0.
        d_model: D, even.

    Returns:
        Float64, the shape of `positions` + (D,).
    """
    even = torch.arange(0, d_model, 2, dtype=torch.float64, device=positions.device)  # 2i
    angles = positions.double()[..., None] / 10000 ** (even / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


FAIRSEQ_FIRST_POSITION = 2
"""fairseq numbers positions from padding_idx + 1, which is 2 with its dictionaries."""


def fairseq_sinusoids(positions: Tensor, d_model: int) -> Tensor:
    """Compute the encoding of fairseq and of the authors' code: all sines, then all cosines.

    The exponent is i/(D/2 - 1); D is even, at least 4. As in fairseq, the first position is number
    2. Returns float64, the shape of `positions` + (D,).
    """
    half = d_model // 2
    i = torch.arange(half, dtype=torch.float64, device=positions.device)
    angles = (positions.double()[..., None] + FAIRSEQ_FIRST_POSITION) / 10000 ** (i / (half - 1))
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


def position_ids(tokens: Tensor, padding_idx: int) -> Tensor:
    """Number the real tokens of each row of (B, T) from 0, whichever side the padding is on.

    At padding the number is a valid position without meaning.
    """
    return (tokens.ne(padding_idx).long().cumsum(dim=1) - 1).clamp(min=0)


def add_positions(embedded: Tensor, positions: Tensor) -> Tensor:
    """Add two (B, T, D) in the wider of their types; round the sum once, to the first one's."""
    return (embedded + positions).to(embedded.dtype)


MOST_NUMBERS = 1 << 25
"""In a table of sinusoids; where more positions may come, they are computed when they are used."""


class SinusoidalPositions(nn.Module):
    """A table of sinusoids, computed in float64 and not saved in checkpoints.

    In a model of bfloat16 or float16 it stays in float32: in bfloat16 63 of 512 columns would be
    constant over the first 64 positions.

    Args:
        max_positions: rows of the table.
        d_model: D.
        encoding: (positions, d_model) -> float64 table, such as `sinusoids`.
    """

    table: Tensor

    def __init__(
        self,
        max_positions: int,
        d_model: int,
        encoding: Callable[[Tensor, int], Tensor] = sinusoids,
    ) -> None:
        super().__init__()
        self.max_positions, self.d_model, self.encoding = max_positions, d_model, encoding
        dtype = torch.promote_types(torch.get_default_dtype(), torch.float32)
        table = self._rows(dtype, torch.zeros(0).device)
        self.register_buffer("table", table, persistent=False)

    def _rows(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        rows = min(self.max_positions, MOST_NUMBERS // self.d_model)
        positions = torch.arange(rows, device="cpu")
        return self.encoding(positions, self.d_model).to(device, dtype)

    # No public way lets a buffer keep its type in .half().
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        if self.table.dtype in (torch.bfloat16, torch.float16):
            self.table = self._rows(torch.float32, self.table.device)
        return self

    def forward(self, positions: Tensor) -> Tensor:
        """(B, T) position numbers -> (B, T, D)."""
        if self.max_positions > len(self.table):
            return self.encoding(positions, self.d_model).to(self.table.dtype)
        return F.embedding(positions, self.table)


class LearnedPositions(nn.Module):
    """Table 3 (E): learned "positional embedding instead of sinusoids".

    Args:
        max_positions: rows of the table.
        d_model: D.
    """

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.max_positions = max_positions
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, positions: Tensor) -> Tensor:
        """(B, T) position numbers -> (B, T, D)."""
        return F.embedding(positions, self.weight)
