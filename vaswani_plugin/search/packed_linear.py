"""A linear layer with constant weights, packed into the layout that the processor reads fastest.

PyTorch includes oneDNN, which reads weights in its own layout up to three times as fast where there
are few rows, as in the translation of one sentence at a time.

Axes: R rows, D inputs, V outputs.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.devices import runs_on_host
from vaswani_plugin.matrix_library import LEAST_ROWS, chosen_library, has_onednn, onednn_product

WORTH_PACKING = 2**18
"""Entries of the smallest matrix for which packing pays; with fewer, the call costs more."""


def _is_for_onednn(weight: Tensor) -> bool:
    return (
        runs_on_host(weight.device)
        and weight.dtype == torch.float32
        and has_onednn()
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    )


class PackedLinear:
    """Computes x W^T + b, or max(0, x W^T + b), without gradients.

    Args:
        weight: W, (V, D). It must not change afterwards, since it may be copied or not.
        bias: b, (V,).
        relu: apply max(0, .) to the result.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> None:
        self.weight = weight.detach()
        self.bias = bias if bias is None else bias.detach()
        self.relu = relu
        self.onednn = _is_for_onednn(weight)
        self.packed = self.onednn and weight.numel() >= WORTH_PACKING
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight.contiguous())

    def __call__(self, x: Tensor) -> Tensor:
        """(R, D) -> (R, V), in a new tensor."""
        many = x.size(0) >= LEAST_ROWS and chosen_library() == "onednn"
        if self.packed or (self.onednn and many):
            then = "relu" if self.relu else "none"
            return onednn_product(x, self.weight, self.bias, then)
        y = F.linear(x, self.weight, self.bias)
        return y.relu_() if self.relu else y


def packed_by_head(heads: int, *parts: tuple[nn.Linear, float]) -> PackedLinear:
    """Join several projections of one input; the outputs of a head are contiguous.

    Args:
        heads: H, the number of heads that divide the outputs of every part.
        parts: projections, each with a factor that multiplies its result.
    """

    def joined(name: str) -> Tensor:
        own = [f * getattr(linear, name).unflatten(0, (heads, -1)) for linear, f in parts]
        return torch.cat(own, dim=1).flatten(0, 1)

    return PackedLinear(joined("weight"), joined("bias"))
