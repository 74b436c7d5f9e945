"""The one-layer Transformer language model of the lecture notes, formula by formula.

    x = E[words] + P
    V = x W_V,  Q = x W_Q,  K = x W_K
    h = softmax(M / sqrt(d_hidden)) V,  M = Q K^T, the future masked
    O = ReLU(ReLU(h W_1) W_2)
    Pr(X_{t+1} = j | w_1 ... w_t) = softmax(O_t E^T)_j

The notes are "Notes on Attention and the Transformer Model", section 4. There is one head, no
residual connection, no LayerNorm, no bias, and no factor of sqrt(d) before E.

Axes: B batch, T words, D d_embedding, H d_hidden, F d_1, V vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.modules.attention import causal_mask, padding_mask, scaled_dot_product_attention
from vaswani_plugin.modules.embedding import Embedding, add_positions, position_ids


class OneLayer(nn.Module):
    """The four formulas after the embedding: x (B, T, D) -> O (B, T, D).

    Without `projections` Q, K and V are x itself, M_ij = x_i . x_j is not scaled, and H is D.
    """

    def __init__(self, d_embedding: int, d_hidden: int, d_1: int, projections: bool = True) -> None:
        super().__init__()
        self.projections = projections
        if projections:
            self.w_q, self.w_k, self.w_v = (_matrix(d_embedding, d_hidden) for _ in range(3))
        self.w_1 = _matrix(d_hidden, d_1)
        self.w_2 = _matrix(d_1, d_embedding)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Q, K and V, (B, T, H)."""
        return (x @ self.w_q, x @ self.w_k, x @ self.w_v) if self.projections else (x, x, x)

    def hidden_states(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """h = softmax(M / sqrt(d_hidden)) V, which is Eq. 1, (B, T, H); and the weights (B, T, T).

        The mask (B, T, T) is True where a word may attend. Without projections
        h_i = sum_j alpha_ij x_j, where alpha_i is the softmax of x_i . x_j.
        """
        scale = None if self.projections else 1.0
        return scaled_dot_product_attention(*self.queries_keys_values(x), mask, scale)

    def output(self, h: Tensor) -> Tensor:
        """O = ReLU(ReLU(h W_1) W_2), (B, T, D)."""
        return F.relu(F.relu(h @ self.w_1) @ self.w_2)

    def forward(self, x: Tensor, mask: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """(B, T, D) -> (B, T, D); `dropout` is the probability of dropping an element of h."""
        h, _ = self.hidden_states(x, mask)
        return self.output(F.dropout(h, dropout, self.training))


class OneLayerLanguageModel(nn.Module):
    """The whole model: words in, O out; `project` gives the logits O E^T.

    `embedding` is E, without its factor of sqrt(d); `positions` maps (B, T) position numbers to
    P (B, T, D); `dropout` is on x and on h (0 in the notes).
    """

    def __init__(
        self, embedding: Embedding, positions: nn.Module, layer: OneLayer, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.padding_idx, self.dropout = embedding.padding_idx, dropout
        self.embedding, self.positions, self.layer = embedding, positions, layer

    def forward(self, tokens: Tensor) -> Tensor:
        """Texts (B, T), padded on either side -> O (B, T, D)."""
        length = tokens.size(1)
        words = F.embedding(tokens, self.embedding.weight, padding_idx=self.padding_idx)
        x = add_positions(words, self.positions(position_ids(tokens, self.padding_idx)))
        mask = causal_mask(length, length, device=tokens.device)
        mask = mask & padding_mask(tokens, self.padding_idx)[:, 0]  # (B, T, T)
        return self.layer(F.dropout(x, self.dropout, self.training), mask, self.dropout)

    def project(self, features: Tensor) -> Tensor:
        """O (..., D) -> logits (..., V)."""
        return self.embedding.project(features)


def _matrix(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, columns)))
