"""What a forward pass keeps for its backward pass."""

import contextlib
from collections.abc import Iterator

import torch
from torch.multiprocessing.reductions import StorageWeakRef


@contextlib.contextmanager
def collected() -> Iterator[list[torch.Tensor]]:
    """The tensors that are kept within the `with`, in order, as they are kept."""
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        yield kept


def storages(kept: list[torch.Tensor]) -> dict[int, int]:
    """Bytes by a number of the memory that they share; on `meta`, memory has no address."""
    memory = [x.untyped_storage() for x in kept]
    return {StorageWeakRef(storage).cdata: storage.nbytes() for storage in memory}
