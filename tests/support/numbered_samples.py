"""A dataset of which sample n is the number n."""

import torch


class Numbers(torch.utils.data.Dataset):
    """Samples that are their own numbers."""

    supports_prefetch = False

    def __init__(self, size: int) -> None:
        self.size = size

    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return self.size
