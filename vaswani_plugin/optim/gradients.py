"""Where a processor's gradients lie: in memory of their own, apart from the activations'.

A backward pass frees the activations of the last layer first. A weight's gradient would be put
where they were, and stay: what is left of the place is too small for the activations of the next
layer, which take new memory, layer after layer.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

SMALLEST = 1 << 18
"""Bytes; smaller gradients fit between others."""
LARGEST = 32 << 20
"""Bytes; larger blocks come from the system and go back to it one by one."""


def keep_gradients_apart(parameters: Iterable[Tensor]) -> None:
    """Give the parameters memory for their gradients, once and before anything else needs it.

    A gradient is copied there as soon as it is complete. Without one `grad` is None, as ever.

    Args:
        parameters: those on other devices, and those that are not learned, are left alone.
    """
    for parameter in parameters:
        is_learned_here = parameter.device.type == "cpu" and parameter.requires_grad
        if is_learned_here and parameter.is_leaf and SMALLEST <= parameter.nbytes < LARGEST:
            parameter.register_post_accumulate_grad_hook(_Keeper(torch.empty_like(parameter)))


class _Keeper:
    """Puts one parameter's gradient into its memory; told each time that it has grown."""

    def __init__(self, memory: Tensor) -> None:
        self.memory = memory.detach()

    def __call__(self, parameter: Tensor) -> None:
        grad = parameter.grad
        if grad is self.memory or grad.requires_grad or grad.layout != torch.strided:
            return  # there already; part of a graph of its own; sparse
        parameter.grad = self.memory.copy_(grad)
