"""Memory that training frees at every update and asks for again at the next."""

import ctypes
import sys
from collections.abc import Callable
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # <malloc.h> of glibc
KEPT_BLOCK = 32 << 20
"""Blocks up to so many bytes stay with the process when they are freed."""
KEPT_TOTAL = (1 << 31) - 1
WORTH_RETURNING = 1 << 30
"""So many free bytes are given back between two updates. They are cleared again, page by page, as
the update needs them, which takes about a tenth of its time: a price for large models only."""


class _MallocInfo(ctypes.Structure):
    """glibc's `struct mallinfo2`; `fordblks` are the bytes of its heap that nobody uses."""

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
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK)
        mallopt(M_TRIM_THRESHOLD, KEPT_TOTAL)


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
    give_back = holes_returner()
    if give_back is None or is_replaced(original):
        return

    def zero_grad(self: Trainer) -> Any:
        result = original(self)
        give_back()
        return result

    replace(Trainer, "zero_grad", zero_grad)


def holes_returner() -> Callable[[], bool] | None:
    """A function that gives free heap back where it is worth it, and says whether it was.

    None where the C library has none.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if not (hasattr(library, "mallinfo2") and hasattr(library, "malloc_trim")):
        return None
    library.mallinfo2.restype = _MallocInfo

    def give_back() -> bool:
        if library.mallinfo2().fordblks < WORTH_RETURNING:
            return False
        library.malloc_trim(0)
        return True

    return give_back
