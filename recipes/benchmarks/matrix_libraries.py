"""Speed of oneDNN and MKL in the matrix products of a training; run by matrix_libraries.sh."""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin import processor  # noqa: E402
from vaswani_plugin.matrix_library import (  # noqa: E402
    chosen_library,
    has_onednn,
    onednn_product,
    vendor,
)

TOKENS = 4096
SHAPES = {
    "tiny, d_ff": (TOKENS, 128, 256),
    "base, d_model": (TOKENS, 512, 512),
    "base, d_ff": (TOKENS, 512, 2048),
    "base, projection": (512, 512, 37_000),
}
"""Rows, inputs and outputs of a product."""


def gigaflops(product: Callable[[], object], operations: int, repetitions: int) -> float:
    """The median rate, in 10^9 floating-point operations a second."""
    product()
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        product()
        seconds.append(time.perf_counter() - start)
    return operations / statistics.median(seconds) / 1e9


@torch.no_grad()
def rates(shape: tuple[int, int, int], repetitions: int) -> list[tuple[float, float]]:
    """Rates of PyTorch's library and of oneDNN: forward, gradient of the input, of the weight."""
    rows, inputs, outputs = shape
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs)
    grad = torch.randn(rows, outputs)
    pairs = ((x, weight), (grad, weight.t()), (grad.t(), x.t()))
    operations = 2 * rows * inputs * outputs
    return [
        (
            gigaflops(lambda: a @ b.t(), operations, repetitions),  # noqa: B023
            gigaflops(lambda: onednn_product(a, b), operations, repetitions),  # noqa: B023
        )
        for a, b in pairs
    ]


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="matrix_libraries.sh", description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), metavar="NAME")
    args = parser.parse_args(argv)
    if not has_onednn():
        print("this PyTorch has no oneDNN: there is nothing to choose")
        return 1
    capability = torch.backends.cpu.get_cpu_capability()
    print(f"{processor.description()} ({vendor()}, {capability}); chosen: {chosen_library()}")
    print("GFLOP/s by PyTorch's library and by oneDNN: forward | gradient of x | of the weight")
    ratios = []
    for threads in args.threads:
        torch.set_num_threads(threads)
        for name in args.shapes:
            found = rates(SHAPES[name], args.repetitions)
            ratios += [onednn / own for own, onednn in found]
            cells = " | ".join(f"{own:6.0f} {onednn:6.0f}" for own, onednn in found)
            print(f"  {threads} threads, {name:18} {cells}")
    print(f"oneDNN over PyTorch's library, median of all: {statistics.median(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
