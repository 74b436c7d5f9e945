"""Memory that training frees at every update and asks for again at the next."""

import ctypes
import math
import mmap
import os
import sys
import time
from collections.abc import Callable
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # <malloc.h> of glibc
KEPT_BLOCK = 32 << 20
"""Blocks up to so many bytes stay with the process when they are freed."""
KEPT_BLOCK_OF_WIDE_MODELS = 7 << 20
"""More than what the plugin's modules make at a time, less than a batch's activations."""
WIDE = 512
"""Inputs and outputs of a weight from which making activations takes far longer than clearing
their pages."""
KEPT_TOTAL = (1 << 31) - 1
WORTH_RETURNING = 512 << 20
"""Fewer free bytes stay with the process between two updates."""
BEYOND_NEED = 1.25
"""More than so many times what an update needs are given back."""
SECONDS_A_BYTE = 0.6 / (1 << 30)
"""What is given back is cleared again, page by page, when it is needed."""
SHARE_OF_TIME = 0.04
"""Fewer are given back as well, as long as that takes no more of a training's time: done at each
update it takes a seventh."""
KEPT_SHAPES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}
"""Shapes whose kernels oneDNN, and above it PyTorch, keep; an update multiplies some 30."""


class _MallocInfo(ctypes.Structure):
    """glibc's `struct mallinfo2`; `uordblks` and `hblkhd` (large blocks) are the bytes in use."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks "
        "keepcost".split()
    ]


def keep_freed_memory() -> None:
    """Defect: freed activations go back to the system, which then clears them again page by page.

    fairseq-fixed 0.12.3.1 leaves glibc's thresholds as they are: each update of a stock model as
    small as `vaswani_tiny` touches 770 MB anew, one of ours 80. With the thresholds raised, it is
    25, and the peak stays: blocks above 32 MB, large weights and their gradients, still go back.
    Where the C library is not glibc, nothing is done.
    """
    _keep_freed_blocks(KEPT_BLOCK)


def _keep_freed_blocks(largest: int) -> None:
    """Of up to so many bytes."""
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(M_MMAP_THRESHOLD, largest)
        mallopt(M_TRIM_THRESHOLD, KEPT_TOTAL)


def return_large_blocks_of_wide_models() -> None:
    """Defect: a freed block is too small for the next tensor of its size.

    PyTorch asks for aligned memory, for which glibc (2.36) looks for a hundred bytes more than it
    then takes, and fairseq-fixed 0.12.3.1 lets it. The activations of a layer are put behind the
    holes which those of the layer before have left: with the paper's base model, half as much as
    is in use. Blocks that are mapped one by one leave none, but are cleared each time, which a
    narrow model would notice.
    """
    from fairseq.trainer import Trainer

    from vaswani_plugin.compat.replacing import is_replaced, replace

    original = Trainer.__init__
    if is_replaced(original):
        return

    def __init__(self: Trainer, cfg: Any, task: Any, model: Any, *args: Any, **kwargs: Any) -> None:
        original(self, cfg, task, model, *args, **kwargs)
        widths = [min(weight.shape) for weight in model.parameters() if weight.dim() > 1]
        is_wide = max(widths, default=0) >= WIDE
        _keep_freed_blocks(KEPT_BLOCK_OF_WIDE_MODELS if is_wide else KEPT_BLOCK)

    replace(Trainer, "__init__", __init__)


def keep_few_kernels() -> None:
    """Defect: oneDNN and PyTorch keep the code that they made for each shape of a product.

    Both keep it for 1,024 shapes, scattered over the heap, and fairseq-fixed 0.12.3.1 lets them.
    Hardly two batches of sentences are alike, so that few are met again: `vaswani_tiny` grows by
    400 MB in 150 updates and is no faster for it. Who sets these variables before has what they
    say.
    """
    for name, shapes in KEPT_SHAPES.items():
        os.environ.setdefault(name, shapes)


def return_holes_between_updates() -> None:
    """Defect: what batches of many shapes leave free adds up to more than any of them needs.

    fairseq-fixed 0.12.3.1 leaves them where they are, and `keep_freed_memory` keeps more of them:
    blocks of one batch don't fit into the holes of the one before, and after a few updates of the
    paper's base model a third of the process's memory is such holes. They are returned before an
    update, when next to nothing is in use.
    Where the C library is not glibc (2.33 or newer), nothing is done.
    """
    from fairseq.trainer import Trainer

    from vaswani_plugin.compat.replacing import is_replaced, replace

    original = Trainer.zero_grad
    holes = Holes.of_this_process()
    if holes is None or is_replaced(original):
        return

    def zero_grad(self: Trainer) -> Any:
        result = original(self)
        holes.give_back()
        return result

    replace(Trainer, "zero_grad", zero_grad)


class Holes:
    """Memory of the process that nobody uses.

    glibc's `fordblks` doesn't tell: a page that was returned still counts as free there. What is
    resident and not in use does, less what it was when everything had just been returned: that of
    other allocators, and free parts of pages that are in use.

    Args:
        library: the C library, glibc 2.33 or newer.
        resident: tells the process's resident memory without that of files, in bytes.
        now: tells the time, in seconds.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        resident: Callable[[], int],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.library, self.resident, self.now = library, resident, now
        self.returned_at = now()
        self.floor = -math.inf  # unknown before the first return, in bytes
        self.needed = 0.0  # the most that an update which began without holes has left, in bytes
        self.without = False  # holes, when the update of now began

    @classmethod
    def of_this_process(cls) -> "Holes | None":
        """None where the C library can't tell or can't return them."""
        library = ctypes.CDLL(None) if sys.platform == "linux" else None
        if not (hasattr(library, "mallinfo2") and hasattr(library, "malloc_trim")):
            return None
        library.mallinfo2.restype = _MallocInfo
        return cls(library, resident_memory)

    def give_back(self) -> bool:
        """Return them where that is worth it; to be called between updates.

        The first call returns them always.

        Returns:
            Whether they were returned.
        """
        holes = self._not_in_use() - self.floor
        if self.without:
            self.needed = max(self.needed, holes)
        since = self.now() - self.returned_at
        has_time = since * SHARE_OF_TIME >= holes * SECONDS_A_BYTE
        self.without = holes >= WORTH_RETURNING and (has_time or holes > BEYOND_NEED * self.needed)
        if self.without:
            self.library.malloc_trim(0)
            self.floor, self.returned_at = self._not_in_use(), self.now()
        return self.without

    def _not_in_use(self) -> int:
        heap = self.library.mallinfo2()
        return self.resident() - heap.uordblks - heap.hblkhd


def resident_memory() -> int:
    """Bytes of this process that are in memory and in no file (Linux).

    Raises:
        OSError: the system doesn't tell.
    """
    with open("/proc/self/statm", encoding="ascii") as stream:
        _, resident, of_files, *_ = map(int, stream.read().split())
    return (resident - of_files) * mmap.PAGESIZE
