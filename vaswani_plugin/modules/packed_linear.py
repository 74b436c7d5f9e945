"""A linear map whose weights are final, as fast as the processor allows.

oneDNN, which PyTorch brings along beside MKL, reads weights that it has laid out beforehand up to
three times as fast where there are few rows, as when one sentence is translated at a time.

Axes: R rows, D inputs, V outputs.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.modules.linear import worth_onednn

WORTH_PACKING = 2**18
"""Entries of a matrix from which laying it out anew pays; below, the call costs more."""


def _has_onednn(weight: Tensor) -> bool:
    names = ("_linear_pointwise", "_reorder_linear_weight")
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.mkldnn.is_available()
        and all(hasattr(torch.ops.mkldnn, name) for name in names)
    )


class PackedLinear:
    """x W^T + b, then a rectifier where it is wanted; no gradients.

    It is made from copies or from tensors that must not change any more.

    Args:
        weight: W, (V, D).
        bias: b, (V,).
        relu: apply max(0, .) to the result.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> None:
        self.weight = weight.detach()
        self.bias = bias if bias is None else bias.detach()
        self.relu = relu
        self.onednn = _has_onednn(weight)
        self.packed = self.onednn and weight.numel() >= WORTH_PACKING
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight.contiguous())

    def __call__(self, x: Tensor) -> Tensor:
        """(R, D) -> (R, V), a tensor of its own."""
        if self.packed or (self.onednn and worth_onednn(x.size(0))):
            then = "relu" if self.relu else "none"
            return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, then, [], "")
        y = F.linear(x, self.weight, self.bias)
        return y.relu_() if self.relu else y


def packed_by_head(heads: int, *parts: tuple[nn.Linear, float]) -> PackedLinear:
    """Several projections of one input as one: of each head first what the first part gives.

    Args:
        heads: H, into which the outputs of every part fall.
        parts: projections, each with a number that multiplies its result.
    """

    def joined(name: str) -> Tensor:
        own = [f * getattr(linear, name).unflatten(0, (heads, -1)) for linear, f in parts]
        return torch.cat(own, dim=1).flatten(0, 1)

    return PackedLinear(joined("weight"), joined("bias"))
