"""Dropout (section 5.4) with masks that cost little to draw on a processor.

PyTorch draws one float for every element. Here one number of 64 bits decides on four elements, 16
bits each, so that P_drop is kept to 1/65536; what is left is scaled by the probability in force,
so that the expectation is exact. The numbers come from a generator that takes half the time of
PyTorch's (SFC64, Doty-Humphrey), begun anew for each mask by a number of PyTorch's: a seed repeats
them.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vaswani_plugin.modules.linear import has_own_kernels

LEVELS = 1 << 16
WORTH_BITS = 1 << 20
"""Elements from which a mask is kept as bits; the bytes of a smaller one cost less than the time
that it takes to make bits of them, and bytes again (1 % of training `vaswani_tiny`)."""


def threshold_of(p: float) -> int:
    """How many of the 65,536 levels are dropped."""
    return round(p * LEVELS)


def is_cheap(x: Tensor, p: float) -> bool:
    """Whether masks are drawn here; PyTorch's dropout serves elsewhere, and drops everything."""
    return has_own_kernels(x) and 0 <= threshold_of(p) < LEVELS


def keep_mask(x: Tensor, p: float) -> tuple[Tensor, float]:
    """Draw which elements stay.

    Args:
        x: any shape, on the processor.
        p: probability of dropping, 0 <= p, below 1 - 2^-17.

    Returns:
        Bytes of the shape of `x`, 1 where an element stays; and the scale of what stays, the
        inverse of the probability to stay.
    """
    seed = int(torch.empty((), dtype=torch.int64).random_())
    draws = np.random.SFC64(seed).random_raw((x.numel() + 3) // 4)  # of 64 bits
    levels = torch.from_numpy(draws.view(np.int16))[: x.numel()].view(x.shape)
    threshold = threshold_of(p)
    keep = torch.empty(x.shape, dtype=torch.uint8)
    torch.ge(levels, threshold - LEVELS // 2, out=keep)
    return keep, LEVELS / (LEVELS - threshold)


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """`torch.nn.functional.dropout` with a cheap mask.

    Args:
        x: any shape.
        p: probability of dropping an element.
        training: without it nothing is dropped.

    Returns:
        Each element times 0 or times about 1/(1 - p).
    """
    if not training or p == 0:
        return x
    if is_cheap(x, p):
        return _Dropout.apply(x, p)
    return F.dropout(x, p)


def packed(keep: Tensor) -> Tensor:
    """A mask as it is kept for the backward pass: a large one as bits."""
    return torch.from_numpy(np.packbits(keep.numpy())) if _is_kept_as_bits(keep) else keep


def unpacked(kept: Tensor, like: Tensor) -> Tensor:
    """The mask that `packed` was given, of the shape of `like`."""
    if not _is_kept_as_bits(like):
        return kept
    return torch.from_numpy(np.unpackbits(kept.numpy(), count=like.numel())).view(like.shape)


def _is_kept_as_bits(x: Tensor) -> bool:
    return x.numel() >= WORTH_BITS


def apply_mask(x: Tensor, keep: Tensor, scale: float, total: Tensor | None = None) -> Tensor:
    """x * keep * scale, added to `total` where there is one, as a new tensor."""
    # A product of bytes and floats converts element by element; converted first, both are fast.
    keep = keep.to(x.dtype)
    if total is None:
        return keep.mul_(scale).mul_(x)
    return torch.addcmul(total, x, keep, value=scale, out=keep)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, p):
        keep, ctx.scale = keep_mask(x, p)
        ctx.save_for_backward(packed(keep))
        return apply_mask(x, keep, ctx.scale)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_y):
        (mask,) = ctx.saved_tensors
        return apply_mask(grad_y, unpacked(mask, grad_y), ctx.scale), None
