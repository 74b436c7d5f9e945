"""Embeddings and the pre-softmax projection (section 3.4).

Axes: B batch, T positions, D d_model, V vocabulary.
"""

import math

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
