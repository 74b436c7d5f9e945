"""PyTorch's threads on the CPU, which are a setting of each Python thread."""

import torch


def use_threads(count: int) -> None:
    """Let PyTorch use so many threads for what this Python thread computes."""
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)
