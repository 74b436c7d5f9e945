"""The number of PyTorch's threads on the CPU, which each Python thread sets for itself."""

import torch


def use_threads(count: int) -> None:
    """Let PyTorch use `count` CPU threads for the calls of this Python thread."""
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)
