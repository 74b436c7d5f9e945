"""The conditions under which a kernel runs instead of PyTorch's own function."""

import torch
from torch import Tensor

from vaswani_plugin.devices import runs_on_host


def applies_to(*tensors: Tensor, under_autocast: bool = False, on_any_device: bool = False) -> bool:
    """Return whether a kernel can run on these tensors.

    The kernels support plain autograd, most of them on a CPU only. Other devices, `torch.compile`,
    `torch.func` and tensor subclasses get PyTorch's own functions.

    Args:
        tensors: a kernel's inputs.
        under_autocast: whether the kernel supports automatic mixed precision.
        on_any_device: whether the kernel supports every device.
    """
    return (
        all(type(x) in (Tensor, torch.nn.Parameter) for x in tensors)
        and (on_any_device or all(runs_on_host(x.device) for x in tensors))
        and not torch.compiler.is_compiling()
        and (under_autocast or not torch.is_autocast_enabled("cpu"))
        # no public name tells whether a transform of torch.func is running
        and not torch._C._are_functorch_transforms_active()
    )
