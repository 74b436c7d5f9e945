"""LayerNorm(x + Dropout(y)) as one autograd node, with a dropout mask that is cheap to draw.

Replaces `modules.layers.AddNorm` in training with dropout.
Gain: `vaswani_tiny` trains 1.05 (one thread) to 1.2 times as fast on an AMD EPYC with AVX-512.

PyTorch draws one float for every element. Here one random number of 64 bits decides for four
elements, with 16 bits each, so P_drop is rounded to a multiple of 1/65536. The elements that stay
are divided by the rounded probability to stay, so the expectation is exact. The random numbers come
from NumPy's SFC64, which every mask seeds with a number from PyTorch's generator: the same seed of
PyTorch gives the same masks.
"""

import numpy as np
import torch
from torch import Tensor, nn

from vaswani_plugin.kernels.conditions import applies_to
from vaswani_plugin.modules.layers import AddNorm

LEVELS = 1 << 16


class FusedAddNorm(AddNorm):
    """Computes the same as a plain `AddNorm`, and shares its LayerNorm."""

    equals = AddNorm

    def __init__(self, plain: AddNorm) -> None:
        nn.Module.__init__(self)
        self.dropout, self.norm = plain.dropout, plain.norm

    def forward(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        """Two (B, T, D) -> (B, T, D)."""
        drops = self.training and 0 < threshold_of(self.dropout) < LEVELS
        if not (drops and applies_to(x, sublayer_output, under_autocast=True)):
            return super().forward(x, sublayer_output)
        norm, sublayer_output = self.norm, sublayer_output.to(x.dtype)
        return _DropAddNorm.apply(
            x, sublayer_output, norm.weight, norm.bias, self.dropout, norm.eps
        )


def threshold_of(p: float) -> int:
    """Return for how many of the 65,536 levels an element is dropped."""
    return round(p * LEVELS)


def keep_mask(x: Tensor, p: float) -> tuple[Tensor, float]:
    """Draw which elements of `x` stay: a uint8 tensor, 1 where one stays, and their factor."""
    seed = int(torch.empty((), dtype=torch.int64, device="cpu").random_())
    draws = np.random.SFC64(seed).random_raw((x.numel() + 3) // 4)  # of 64 bits
    levels = torch.from_numpy(draws.view(np.int16))[: x.numel()].view(x.shape)
    threshold = threshold_of(p)
    keep = torch.empty(x.shape, dtype=torch.uint8, device="cpu")
    torch.ge(levels, threshold - LEVELS // 2, out=keep)
    return keep, LEVELS / (LEVELS - threshold)


class _DropAddNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, sublayer_output, weight, bias, p, eps):
        keep, ctx.scale = keep_mask(sublayer_output, p)
        kept = keep.to(x.dtype)  # bytes times floats would convert element by element
        total = torch.addcmul(x, sublayer_output, kept, value=ctx.scale, out=kept)
        y, mean, rstd = torch.native_layer_norm(total, weight.shape, weight, bias, eps)
        ctx.save_for_backward(total, keep, mean, rstd, weight, bias)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_y):
        total, keep, mean, rstd, weight, bias = ctx.saved_tensors
        grad_total, grad_weight, grad_bias = torch.ops.aten.native_layer_norm_backward(
            grad_y.contiguous(), total, weight.shape, mean, rstd, weight, bias, [True, True, True]
        )
        grad_sublayer = keep.to(grad_total.dtype).mul_(ctx.scale).mul_(grad_total)
        return grad_total, grad_sublayer, grad_weight, grad_bias, None, None
