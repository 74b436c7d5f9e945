"""Position-wise feed-forward network (section 3.3, Eq. 2)."""

import torch
from torch import Tensor, nn

from vaswani_plugin.modules import recomputing
from vaswani_plugin.modules.dropout import dropout
from vaswani_plugin.modules.linear import (
    SumOfGradients,
    has_own_kernels,
    linear,
    product,
    rows_of,
)


class FeedForward(nn.Module):
    """Eq. 2: FFN(x) = max(0, x W_1 + b_1) W_2 + b_2.

    The initial weights are nn.Linear's own, uniform within 1/sqrt(inputs): with Xavier's larger
    ones a post-norm model takes markedly longer to begin to learn.

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
        parameters = (self.w_1.weight, self.w_1.bias, self.w_2.weight, self.w_2.bias)
        hidden_units = x[..., 0].numel() * self.w_1.out_features
        drops = self.training and self.dropout > 0
        if hidden_units >= recomputing.WORTH_A_PRODUCT and not drops and has_own_kernels(x):
            return _ForgetfulFeedForward.apply(x, *parameters)
        hidden = linear(x, self.w_1.weight, self.w_1.bias, relu=True)
        hidden = dropout(hidden, self.dropout, self.training)
        return linear(hidden, self.w_2.weight, self.w_2.bias)


class _ForgetfulFeedForward(torch.autograd.Function):
    """Eq. 2, computing the hidden layer again in the backward pass instead of keeping it."""

    @staticmethod
    def forward(ctx, x, w_1, b_1, w_2, b_2):
        recomputing.save(ctx, x, w_1, b_1, w_2)
        rows = rows_of(x)
        y = rows.new_empty(len(rows), len(w_2))
        for piece in recomputing.pieces(len(rows), len(w_1)):
            hidden = product(rows[piece], w_1, b_1, relu=True)
            product(hidden, w_2, b_2, out=y[piece])
        return y.view(x.shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_y):
        x, w_1, b_1, w_2 = recomputing.saved(ctx)
        rows, grad_y = rows_of(x), rows_of(grad_y)
        grad_x = rows.new_empty(rows.shape)
        first, second = SumOfGradients(w_1), SumOfGradients(w_2)
        for piece in recomputing.pieces(len(rows), len(w_1)):
            hidden = product(rows[piece], w_1, b_1, relu=True)
            grad_hidden = torch.empty_like(hidden)
            second.add(grad_y[piece], hidden, grad_hidden)
            grad_hidden = torch.ops.aten.threshold_backward(grad_hidden, hidden, 0)
            first.add(grad_hidden, rows[piece], grad_x[piece])
        return grad_x.view(x.shape), *first.of_parameters(), *second.of_parameters()
