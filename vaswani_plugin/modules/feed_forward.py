"""Position-wise feed-forward network (section 3.3, Eq. 2)."""

import torch.nn.functional as F
from torch import Tensor, nn


class FeedForward(nn.Module):
    """Eq. 2: FFN(x) = max(0, x W_1 + b_1) W_2 + b_2.

    The initial weights are nn.Linear's own, uniform in [-a, a] with a = 1/sqrt(inputs). With the
    larger weights of Xavier's initialization, a post-norm model starts to learn much later.

    Args:
        d_model: width of input and output.
        d_ff: width of the hidden layer.
        dropout: probability of dropping a hidden unit (0 in the paper).

    Raises:
        ValueError: when d_ff is below 1.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        if d_ff < 1:
            raise ValueError(f"d_ff is {d_ff}; it must be at least 1")
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        hidden = F.relu(self.w_1(x))
        return self.w_2(F.dropout(hidden, self.dropout, self.training))
