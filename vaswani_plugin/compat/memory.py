"""Memory that training frees at every update and asks for again at the next."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # <malloc.h> of glibc
KEPT_BLOCK = 32 << 20
"""Blocks up to so many bytes stay with the process when they are freed."""
KEPT_TOTAL = (1 << 31) - 1


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
