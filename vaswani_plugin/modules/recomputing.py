"""What training makes a second time, in its backward pass, instead of keeping it.

A layer's activations are many times its weights; which of them are worth keeping is a matter of
what they cost to make. A normalized sum costs next to nothing, a product one of the three that a
weight costs anyway. Small ones are kept.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

WORTH_A_PRODUCT = 1 << 22
"""Numbers, 16 MiB in float32, from which one more product is a fair price for their memory."""
WORTH_A_NORM = 1 << 20
"""Numbers from which one more normalization is."""
PIECE = 3 << 19
"""Numbers, 6 MiB in float32, that are made at a time.

What is made for the moment, whole, takes more room than anything that stays, which is then put
into its place: the heap becomes holes, as much as is in use."""


def pieces(count: int, numbers: int) -> list[slice]:
    """Parts of a tensor, few and of about one size, of at most `PIECE` numbers where that can be.

    Args:
        count: rows, or sentences.
        numbers: made for each of them.
    """
    at_a_time = max(1, PIECE // numbers)
    size = -(-count // -(-count // at_a_time))
    return [slice(start, start + size) for start in range(0, count, size)]


@dataclass
class Origin:
    """How a tensor was made: LayerNorm(total) * weight + bias.

    Attributes:
        total: (..., D), which the backward pass of the normalization needs and keeps anyway.
        weight: (D,).
        bias: (D,).
        eps: added to the variance.
    """

    total: Tensor
    weight: Tensor
    bias: Tensor
    eps: float

    def again(self) -> Tensor:
        """The tensor, bit for bit."""
        weight = self.weight
        return torch.native_layer_norm(self.total, weight.shape, weight, self.bias, self.eps)[0]


def set_origin(y: Tensor, origin: Origin) -> None:
    """Have those who need `y` in their backward pass make it again, if it is large."""
    if y.numel() >= WORTH_A_NORM:
        y.origin = origin


def drop_origin(y: Tensor) -> None:
    """Have `y` itself kept, where what it was made of is not."""
    if hasattr(y, "origin"):
        del y.origin


def save(ctx: Any, x: Tensor, *others: Tensor | None) -> None:
    """`ctx.save_for_backward` of all of them, of `x` only what it was made of where that is known.

    Args:
        ctx: of a torch.autograd.Function; `saved` is to be called once with it.
        x: an input, as the function was called with it.
        others: tensors.
    """
    origin = getattr(x, "origin", None)
    ctx.eps_of_origin = origin and origin.eps
    kept = (x,) if origin is None else (origin.total, origin.weight, origin.bias)
    ctx.save_for_backward(*kept, *others)


def saved(ctx: Any) -> tuple[Tensor | None, ...]:
    """What `save` was told to save: `x`, then the others."""
    tensors = ctx.saved_tensors
    if ctx.eps_of_origin is None:
        return tensors
    return Origin(*tensors[:3], ctx.eps_of_origin).again(), *tensors[3:]
