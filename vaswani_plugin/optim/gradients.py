"""Where a processor's gradients lie: in memory of their own, apart from the activations'.

A backward pass frees the activations of the last layer first. A weight's gradient would be put
where they were, and stay: what is left of the place is too small for the activations of the next
layer, which take new memory, layer after layer. And between updates it would leave a hole.
"""

import mmap
from collections.abc import Iterable

import torch
from torch import Tensor

SMALLEST = 1 << 18
"""Bytes; smaller gradients fit between others."""
LARGEST = 32 << 20
"""Bytes; larger blocks come from the system and go back to it one by one anyway."""


def keep_gradients_apart(parameters: Iterable[Tensor]) -> None:
    """Move the parameters' gradients into pages of their own, as soon as each is complete.

    The pages go back to the system with the gradient: while the activations of the next forward
    pass are at their most, there is none.

    Args:
        parameters: those on other devices, and those that are not learned, are left alone.
    """
    for parameter in parameters:
        is_learned_here = parameter.device.type == "cpu" and parameter.requires_grad
        if is_learned_here and parameter.is_leaf and SMALLEST <= parameter.nbytes < LARGEST:
            parameter.register_post_accumulate_grad_hook(_Mover())


class _Mover:
    """Moves one parameter's gradient; told each time that it has grown."""

    def __init__(self) -> None:
        self.moved_to: int | None = None

    def __call__(self, parameter: Tensor) -> None:
        grad = parameter.grad
        if grad.requires_grad or grad.layout != torch.strided or grad.data_ptr() == self.moved_to:
            return  # part of a graph of its own; sparse; there already
        parameter.grad = _in_own_pages(grad)
        self.moved_to = parameter.grad.data_ptr()


def _in_own_pages(x: Tensor) -> Tensor:
    """A copy, in large pages where the system has them, which are faster to get."""
    pages = mmap.mmap(-1, x.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=x.dtype).view(x.shape).copy_(x)
