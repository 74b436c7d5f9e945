"""The end of every sub-layer, LayerNorm(x + Dropout(Sublayer(x))), sections 3.1 and 5.4."""

import torch
from torch import Tensor, nn

from vaswani_plugin.modules.dropout import (
    apply_mask,
    dropout,
    is_cheap,
    keep_mask,
    packed,
    unpacked,
)
from vaswani_plugin.modules.recomputing import Origin, set_origin

LAYER_NORM_EPS = 1e-6
"""The authors' code; the paper is silent."""


class AddNorm(nn.Module):
    """Residual connection, dropout and layer normalization.

    Args:
        d_model: width.
        dropout: P_drop.
        eps: added to the variance.
    """

    def __init__(self, d_model: int, dropout: float, eps: float = LAYER_NORM_EPS) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm = nn.LayerNorm(d_model, eps=eps)

    def forward(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        """Two (B, T, D) -> (B, T, D)."""
        norm = self.norm
        if self.training and self.dropout and is_cheap(x, self.dropout):
            return _DropAddNorm.apply(
                x, sublayer_output, norm.weight, norm.bias, self.dropout, norm.eps
            )
        return norm(x + dropout(sublayer_output, self.dropout, self.training))


class _DropAddNorm(torch.autograd.Function):
    """One node of the graph in the place of three, which keeps one tensor of floats, the sum."""

    @staticmethod
    def forward(ctx, x, sublayer_output, weight, bias, p, eps):
        keep, ctx.scale = keep_mask(sublayer_output, p)
        total = apply_mask(sublayer_output, keep, ctx.scale, x)
        y, mean, rstd = torch.native_layer_norm(total, weight.shape, weight, bias, eps)
        ctx.save_for_backward(total, packed(keep), mean, rstd, weight, bias)
        set_origin(y, Origin(total, weight, bias, eps))
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_y):
        total, mask, mean, rstd, weight, bias = ctx.saved_tensors
        grad_total, grad_weight, grad_bias = torch.ops.aten.native_layer_norm_backward(
            grad_y.contiguous(), total, weight.shape, mean, rstd, weight, bias, [True, True, True]
        )
        grad_sublayer = apply_mask(grad_total, unpacked(mask, total), ctx.scale)
        return grad_total, grad_sublayer, grad_weight, grad_bias, None, None
