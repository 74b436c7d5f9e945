"""Layers that train faster on a CPU: `nn.Linear` and the end of a sub-layer, forward and backward.

`OneDNNLinear` replaces `torch.nn.Linear` where `matrix_library` says that oneDNN is faster.
`FusedAddNorm` replaces `modules.layers.AddNorm` in training with dropout: LayerNorm(x + Dropout(y))
as one autograd node, with a dropout mask that is cheap to draw. Gain: the
first's depends on the processor (`matrix_library.py`), the second's is 1.05 (`vaswani_tiny`).

PyTorch draws one float for every element. Here one random number of 64 bits decides for four
elements, with 16 bits each, so P_drop is rounded to a multiple of 1/65536. The elements that stay
are divided by the rounded probability to stay. NumPy's SFC64 draws; every mask seeds it with a
number from PyTorch's generator: the same seed of PyTorch gives the same masks.

Axes: R rows (all leading axes together), D inputs, V outputs.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vaswani_plugin.kernels import proof
from vaswani_plugin.kernels.matrix_library import LEAST_ROWS, chosen_library, onednn_product
from vaswani_plugin.modules.layers import AddNorm
from vaswani_plugin.processor import runs_on_host

LEVELS = 1 << 16


def takes_onednn(a: Tensor) -> bool:
    """Return whether `product` uses oneDNN for `a`, (R, D)."""
    return (
        a.dtype == torch.float32
        and runs_on_host(a.device)
        and a.size(0) >= LEAST_ROWS
        and a.numel() > 0
        and chosen_library() == "onednn"
        and bool(torch.backends.mkldnn.enabled)
    )


def product(a: Tensor, b: Tensor, bias: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Compute a b^T + bias without gradients, (R, D) and (V, D) -> (R, V), into `out` if given."""
    if takes_onednn(a):
        y = onednn_product(a, b, bias)
        return y if out is None else out.copy_(y)
    if bias is None:
        return torch.mm(a, b.t(), out=out)
    return torch.addmm(bias, a, b.t(), out=out)


class Replacement(nn.Module):
    """A kernel in the place of a module, `plain`, with its attributes."""

    plain: Any

    def __init__(self, plain: nn.Module) -> None:
        vars(self).update(vars(plain), plain=plain)

    def as_written(self, *inputs: Tensor) -> Tensor:
        """Compute the module's own `forward`."""
        self.plain.training = self.training
        return self.plain.forward(*inputs)


class OneDNNLinear(Replacement, nn.Linear):
    """Computes the same as a plain layer, and shares its parameters."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., V)."""
        return linear(x, self.weight, self.bias) if proof.can_run_on(x) else self.as_written(x)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute `torch.nn.functional.linear`, with gradients of x (..., D), weight and bias."""
    rows = x.reshape(-1, x.size(-1))
    if torch.is_grad_enabled():
        y = _Linear.apply(rows, weight, bias)
    else:  # an autograd node would only cost time
        y = product(rows, weight, bias)
    return y.view(*x.shape[:-1], y.size(-1))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_y):
        x, weight = ctx.saved_tensors
        with_x, with_weight, with_bias = ctx.needs_input_grad
        return (
            product(grad_y, weight.t()) if with_x else None,
            product(grad_y.t(), x.t()) if with_weight else None,
            grad_y.sum(dim=0) if with_bias else None,
        )


class FusedAddNorm(Replacement, AddNorm):
    """Computes the same as a plain `AddNorm`, and shares its LayerNorm."""

    def before(self, x: Tensor) -> Tensor:
        return self.plain.before(x)

    def forward(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        """Two (B, T, D) -> (B, T, D)."""
        drops = self.training and 0 < round(self.dropout * LEVELS) < LEVELS
        if not (drops and proof.can_run_on(x, sublayer_output, under_autocast=True)):
            return self.as_written(x, sublayer_output)
        y, norm = sublayer_output.to(x.dtype), self.norm
        return _DropAddNorm.apply(x, y, norm.weight, norm.bias, self.dropout, norm.eps)


class SameDropout(TorchFunctionMode):
    """In its block PyTorch's dropout draws its masks as `FusedAddNorm` does."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (self.dropout if func is F.dropout else func)(*args, **(kwargs or {}))

    @staticmethod
    def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        """Compute `torch.nn.functional.dropout`."""
        if not training or not 0 < round(p * LEVELS) < LEVELS:
            return F.dropout(x, p, training)
        keep, scale = keep_mask(x, p)
        return x * keep * scale


def replacement_of(child: nn.Module, kinds: Iterable[type[Replacement]]) -> nn.Module | None:
    """Return the kernel for a module, one of `kinds`, where it computes the same; else None."""
    for kind in kinds:
        is_plain = isinstance(child, kind.__bases__[1]) and not isinstance(child, Replacement)
        if not is_plain or any(map(proof.is_touched, child.modules())):
            continue

        def leaves(kind: type[Replacement] = kind) -> tuple[nn.Module, nn.Module]:
            copied = proof.twin(child)
            return copied, kind(copied)

        key = kind, proof.structure(child)
        if proof.is_proven(type(child).__name__, key, "layers.py", leaves, _trial):
            return kind(child)
    return None


def _trial(leaf: nn.Module) -> list[Tensor | None]:
    """As many inputs as `forward` takes, of two sentences; value and gradients."""
    like = next(leaf.parameters())
    count = 2 if isinstance(leaf, AddNorm) else 1
    options: Any = {"dtype": like.dtype, "device": "cpu", "requires_grad": True}
    inputs = [torch.randn(2, 16, like.size(-1), **options) for _ in range(count)]
    inputs[0][1] *= proof.LARGE
    with nullcontext() if isinstance(leaf, Replacement) else SameDropout():
        return proof.with_gradients(leaf, inputs, [*leaf.parameters()])


def keep_mask(x: Tensor, p: float) -> tuple[Tensor, float]:
    """Draw which elements of `x` stay: a uint8 tensor, 1 where one stays, and their factor."""
    seed = int(torch.empty((), dtype=torch.int64, device="cpu").random_())
    draws = np.random.SFC64(seed).random_raw((x.numel() + 3) // 4)  # of 64 bits
    levels = torch.from_numpy(draws.view(np.int16))[: x.numel()].view(x.shape)
    threshold = round(p * LEVELS)  # an element is dropped at so many of the levels
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
