"""When a kernel applies, and when PyTorch's own function does the work."""

import torch
from torch import Tensor


def applies_to(*tensors: Tensor, under_autocast: bool = False) -> bool:
    """Whether the kernels of this folder run on these tensors.

    They are made for a CPU's plain autograd. Other devices, `torch.compile`, `torch.func` and
    subclasses of tensors get PyTorch's own functions, which know them.

    Args:
        tensors: a kernel's inputs.
        under_autocast: whether the kernel knows automatic mixed precision, too.
    """
    return (
        all(x.device.type == "cpu" and type(x) in (Tensor, torch.nn.Parameter) for x in tensors)
        and not torch.compiler.is_compiling()
        and (under_autocast or not torch.is_autocast_enabled("cpu"))
        # no public name tells whether a transform of torch.func is running
        and not torch._C._are_functorch_transforms_active()
    )
