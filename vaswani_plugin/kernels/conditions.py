"""When a kernel applies, and when PyTorch's own function does the work."""

import torch
from torch import Tensor

from vaswani_plugin.devices import runs_on_host


def applies_to(*tensors: Tensor, under_autocast: bool = False, on_any_device: bool = False) -> bool:
    """Whether the kernels of this folder run on these tensors.

    They are made for plain autograd, most of them for that of a CPU. Other devices,
    `torch.compile`, `torch.func` and subclasses of tensors get PyTorch's own functions, which know
    them.

    Args:
        tensors: a kernel's inputs.
        under_autocast: whether the kernel knows automatic mixed precision, too.
        on_any_device: whether it is for other devices, too.
    """
    return (
        all(type(x) in (Tensor, torch.nn.Parameter) for x in tensors)
        and (on_any_device or all(runs_on_host(x.device) for x in tensors))
        and not torch.compiler.is_compiling()
        and (under_autocast or not torch.is_autocast_enabled("cpu"))
        # no public name tells whether a transform of torch.func is running
        and not torch._C._are_functorch_transforms_active()
    )
