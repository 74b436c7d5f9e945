"""x W^T + b with its gradients, by the faster of the matrix libraries that PyTorch brings along.

PyTorch multiplies float32 matrices with MKL, which leaves half of an AMD processor with AVX-512
unused; oneDNN doesn't. It is not a third kind of layer: values and gradients are
`torch.nn.functional.linear`'s.

Axes: R rows (all leading axes together), D inputs, V outputs.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaswani_plugin.modules.recomputing import save, saved

WORTH_ONEDNN = 24
"""Rows from which oneDNN is faster; below, the call costs more."""
ONEDNN_IS_FASTER = not torch.backends.mkl.is_available() or (
    torch.backends.cpu.get_cpu_capability().startswith("AVX512")
)
"""With AVX2 alone MKL is, by 5 to 20 %, and by 30 to 60 % at the gradients of weights.

It is a rule, not a measurement at the start, so that a run gives the same numbers each time."""

_ONEDNN_LINEAR = (
    torch.ops.mkldnn._linear_pointwise
    if torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    else None
)


def has_own_kernels(x: Tensor) -> bool:
    """Whether the functions of this package run on `x` instead of PyTorch's.

    They are made for processors. GPUs, automatic mixed precision and `torch.compile` are better
    served by PyTorch's own, which they know.
    """
    return (
        x.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
    )


def worth_onednn(rows: int) -> bool:
    """Whether oneDNN multiplies so many rows faster than PyTorch's own library."""
    return ONEDNN_IS_FASTER and rows >= WORTH_ONEDNN


def takes_onednn(a: Tensor) -> bool:
    """Whether `product` has oneDNN multiply.

    Args:
        a: (R, D).
    """
    return (
        _ONEDNN_LINEAR is not None
        and a.dtype == torch.float32
        and worth_onednn(a.size(0))
        and a.device.type == "cpu"
        and torch.backends.mkldnn.enabled
    )


def product(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """a b^T + bias, then max(0, .) where it is wanted; no gradients.

    Args:
        a: (R, D), of any strides.
        b: (V, D), of any strides.
        bias: (V,).
        relu: rectify the result.
        out: (R, V), takes the result; without it that is a tensor of its own.

    Returns:
        (R, V).
    """
    if takes_onednn(a):
        y = _ONEDNN_LINEAR(a, b, bias, "relu" if relu else "none", [], "")
        return y if out is None else out.copy_(y)
    if bias is None:
        y = torch.mm(a, b.t(), out=out)
    else:
        y = torch.addmm(bias, a, b.t(), out=out)
    return y.relu_() if relu else y


def zeros_for_products(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """A sum of products, none added yet, in the order of the numbers that `add_product` likes.

    Args:
        weight: (R, V).
        dtype: of the sum.

    Returns:
        (R, V): for oneDNN the transpose of a matrix.
    """
    if takes_onednn(weight):
        return weight.new_zeros(weight.shape[::-1], dtype=dtype).t()
    return torch.zeros_like(weight, dtype=dtype)


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a b^T; no gradients.

    Args:
        total: (R, V), see `zeros_for_products`.
        a: (R, D), of any strides.
        b: (V, D), of any strides.
    """
    if not total.is_contiguous():
        total += product(b, a).t()
    elif total.dtype != a.dtype:
        total += product(a, b)
    else:
        torch.addmm(total, a, b.t(), out=total)


def product_backward(
    grad_y: Tensor, x: Tensor, weight: Tensor, needed: tuple[bool, ...] = (True, True, True)
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of `product(x, weight, bias)`.

    Args:
        grad_y: (R, V).
        x: (R, D).
        weight: (V, D).
        needed: which of the three.

    Returns:
        Those of x, (R, D), of the weight, (V, D), and of the bias, (V,); None where not needed.
    """
    return (
        product(grad_y, weight.t()) if needed[0] else None,
        product(grad_y.t(), x.t()) if needed[1] else None,
        grad_y.sum(dim=0) if needed[2] else None,
    )


class SumOfGradients:
    """Gradients of `product(x, weight, bias)` whose rows come piece by piece.

    Args:
        weight: (V, D).
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        accumulate = torch.promote_types(weight.dtype, torch.float32)
        self.of_weight = zeros_for_products(weight, accumulate)
        self.of_bias = self.of_weight.new_zeros(weight.size(0))

    def add(self, grad_y: Tensor, x: Tensor, grad_x: Tensor) -> None:
        """One piece.

        Args:
            grad_y: (R, V).
            x: (R, D).
            grad_x: (R, D), takes the gradient of x.
        """
        product(grad_y, self.weight.t(), out=grad_x)
        add_product(self.of_weight, grad_y.t(), x.t())
        self.of_bias += grad_y.sum(dim=0)

    def of_parameters(self) -> tuple[Tensor, Tensor]:
        """Those of the weight, (V, D), and of the bias, (V,)."""
        return self.of_weight.to(self.weight.dtype), self.of_bias.to(self.weight.dtype)


def rows_of(x: Tensor) -> Tensor:
    """(..., D) -> (R, D)."""
    return x.reshape(-1, x.size(-1))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """x W^T + b, then max(0, .) where it is wanted, with gradients.

    Args:
        x: (..., D).
        weight: W, (V, D).
        bias: b, (V,).
        relu: rectify the result.

    Returns:
        (..., V).
    """
    if has_own_kernels(x):
        # Where nothing is to be differentiated, a node of the graph only costs time.
        return (_Linear.apply if torch.is_grad_enabled() else _linear)(x, weight, bias, relu)
    y = F.linear(x, weight, bias)
    return F.relu(y) if relu else y


def joint_linear(x: Tensor, *projections: nn.Linear) -> tuple[Tensor, ...]:
    """Several projections of one input as one product.

    Args:
        x: (..., D).
        projections: of D inputs each, with biases.

    Returns:
        What each projection would return.
    """
    if len(projections) == 1 or not torch.is_grad_enabled():
        # Joining the weights pays by the backward pass.
        return tuple(linear(x, projection.weight, projection.bias) for projection in projections)
    weight = torch.cat([projection.weight for projection in projections])
    bias = torch.cat([projection.bias for projection in projections])
    sizes = [projection.out_features for projection in projections]
    return linear(x, weight, bias).split(sizes, dim=-1)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    return product(rows_of(x), weight, bias, relu).view(*x.shape[:-1], -1)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, relu):
        y = _linear(x, weight, bias, relu)
        save(ctx, x, weight, y if relu else None)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_y):
        x, weight, rectified = saved(ctx)
        if rectified is not None:
            grad_y = torch.ops.aten.threshold_backward(grad_y, rectified, 0)
        grad_x, grad_weight, grad_bias = product_backward(
            rows_of(grad_y), rows_of(x), weight, ctx.needs_input_grad
        )
        return grad_x if grad_x is None else grad_x.view(x.shape), grad_weight, grad_bias, None
