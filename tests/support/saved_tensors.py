"""What a forward pass keeps for its backward pass."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def collected() -> Iterator[list[torch.Tensor]]:
    """The tensors that are kept within the `with`, in order, as they are kept."""
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        yield kept


def storages(kept: list[torch.Tensor]) -> dict[int, int]:
    """Bytes by address of the memory that they share."""
    return {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in kept}
