"""Divides the sentences of a batch among threads; each thread runs its own search.

A search consists of many small operations in sequence. Threads inside an operation wait for each
other at its end; threads with their own sentences don't. (`vaswani_tiny`, 1,000 sentences, AVX2:
6.6 s with two such threads, 7.3 s with two threads inside the operations, 11.3 s with one.)
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

WORTH_THREADS = 2**25
"""Multiply-adds of a step from which PyTorch's threads gain inside its operations. With fewer, each
operation waits for the other thread about as long as it computes; and where another process keeps
a core busy, it waits for the scheduler. (One sentence, beam 4, two threads over one, AMD with AVX2:
`vaswani_tiny` 1.0 times as fast, base 1.5 times; beside a busy process tiny 0.02 times.)"""
LEAST_SHARE = 8
"""Fewest sentences of a thread."""
MOST_SHARES = 4
"""Greatest number of threads. Python runs one thread at a time; only two were measured."""


def split_among_threads(sentences: int) -> list[slice]:
    """Give each of n threads every n-th sentence, to spread sentences of similar length evenly."""
    count = max(1, min(torch.get_num_threads(), sentences // LEAST_SHARE, MOST_SHARES))
    return [slice(first, None, count) for first in range(count)]


@contextmanager
def threads_inside(multiply_adds: int) -> Iterator[None]:
    """Give PyTorch's operations one thread in the block, if a step has little to compute.

    Args:
        multiply_adds: of a step of the search, in all rows together.
    """
    threads = torch.get_num_threads()
    if threads == 1 or multiply_adds >= WORTH_THREADS:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def run_in_threads(work: Callable[[slice], None], shares: list[slice]) -> None:
    """Run `work` on each share in its own thread; a single share runs in the caller's thread.

    Meanwhile PyTorch's threads (`torch.get_num_threads()`) are divided among the shares. Whether
    gradients are computed is as in the caller.

    Raises:
        Exception: the exception of the first share that fails.
    """
    if len(shares) == 1:
        work(shares[0])
        return
    threads, gradients = torch.get_num_threads(), torch.is_grad_enabled()

    def run_share(share: slice) -> None:  # both settings are per thread
        torch.set_num_threads(max(1, threads // len(shares)))
        with torch.set_grad_enabled(gradients):
            work(share)

    try:
        with ThreadPoolExecutor(len(shares)) as pool:
            list(pool.map(run_share, shares))
    finally:
        torch.set_num_threads(threads)
