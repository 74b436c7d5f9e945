"""The rate of matrix products on this machine: an upper limit for the rate of training."""

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from vaswani_plugin.devices import runs_on_host
from vaswani_plugin.matrix_library import has_onednn, onednn_product

SIZES = (1024, 2048, 4096, 8192)
"""Rows and columns of the products tried: small ones suit a CPU, large ones a GPU."""

REPETITIONS = 5
ENOUGH_SECONDS = 0.02
"""A product that takes this long has reached the limit; larger ones would only take longer."""


@torch.no_grad()
def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """The best rate of some large square products, in FLOP/s (a multiply-add is 2 FLOPs).

    The products use PyTorch's default library and, for float32 on a CPU, also oneDNN. This takes
    about a second on a CPU.

    Args:
        device: the CPU, with as many threads as PyTorch uses at the moment, or a GPU.
        dtype: of both factors and the product.
    """
    best = 0.0
    for size in SIZES:
        x = torch.randn(size, size, device=device).to(dtype)
        products: list[Callable[[Tensor], Tensor]] = [lambda rows: F.linear(rows, rows)]
        if runs_on_host(device) and dtype == torch.float32 and has_onednn():
            products.append(lambda rows: onednn_product(rows, rows))
        seconds = [_seconds(each, x) for each in products for _ in range(REPETITIONS)]
        best = max(best, 2 * size**3 / min(seconds))
        if min(seconds) > ENOUGH_SECONDS:
            break
    return best


def _seconds(product: Callable[[Tensor], object], x: Tensor) -> float:
    _finish(x.device)
    start = time.perf_counter()
    product(x)
    _finish(x.device)
    return time.perf_counter() - start


def _finish(device: torch.device) -> None:
    if not runs_on_host(device):
        torch.accelerator.synchronize(device)
