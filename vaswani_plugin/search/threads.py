"""The sentences of a batch shared among threads, each of which searches by itself.

A search is many small operations, one after the other. Threads within each operation wait for one
another at its end; threads with sentences of their own don't. (`vaswani_tiny`, 1,000 sentences, two
threads: 6.6 s against 7.3 with the threads within the operations, 11.3 with one; on AVX2.)
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

LEAST_SHARE = 8
"""Fewest sentences that a thread is begun for."""
MOST_SHARES = 4
"""Python runs in one thread at a time; what more than two gain was not measured."""


def shares_of(sentences: int) -> list[slice]:
    """Every n-th sentence for each of n threads, so that neighbours in length are spread evenly."""
    count = max(1, min(torch.get_num_threads(), sentences // LEAST_SHARE, MOST_SHARES))
    return [slice(first, None, count) for first in range(count)]


def run_in_threads(work: Callable[[slice], None], shares: list[slice]) -> None:
    """`work` of each share in a thread of its own, a lone one in the caller's.

    PyTorch's threads (`torch.get_num_threads()`) are divided among them meanwhile; whether
    gradients are wanted is as in the caller.

    Raises:
        Exception: the first share's, of those that end with one.
    """
    if len(shares) == 1:
        work(shares[0])
        return
    threads, gradients = torch.get_num_threads(), torch.is_grad_enabled()

    def work_alone(share: slice) -> None:  # both settings are a thread's own
        torch.set_num_threads(max(1, threads // len(shares)))
        with torch.set_grad_enabled(gradients):
            work(share)

    try:
        with ThreadPoolExecutor(len(shares)) as pool:
            list(pool.map(work_alone, shares))
    finally:
        torch.set_num_threads(threads)
