"""Freed memory stays with the process, so that the next update finds it cleared already."""

import platform
import subprocess
import sys

import pytest

from tests.conftest import PLUGIN

# A process of its own: in this one, what other tests hold keeps glibc from giving memory back.
PROGRAM = """
import ctypes, importlib.util, resource, sys

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]

def pages_touched_anew():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [libc.malloc(16 << 20) for _ in range(5)]
    for block in blocks:
        ctypes.memset(block, 1, 16 << 20)
    for block in blocks:
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def settled():
    return [pages_touched_anew() for _ in range(4)][-1]

before = settled()
spec = importlib.util.spec_from_file_location("memory", sys.argv[1])
memory = importlib.util.module_from_spec(spec)
spec.loader.exec_module(memory)
memory.keep_freed_memory()
print(before, settled(), resource.getpagesize())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is set")
def test_blocks_freed_are_found_again():
    command = [sys.executable, "-c", PROGRAM, PLUGIN / "compat" / "memory.py"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    without, with_mend, page = map(int, run.stdout.split())
    pages = (80 << 20) // page
    assert without > 0.9 * pages  # the defect is there
    assert with_mend < 0.1 * pages
