"""A process whose batches are still being made ends in order."""

import subprocess
import sys

import pytest

BUSY = """
import time
import torch
import vaswani_plugin
vaswani_plugin.register()
from fairseq.data.iterators import BufferedIterator


class Batches:
    def __len__(self):
        return 10**6

    def __iter__(self):
        while True:
            {make}


batches = BufferedIterator({size}, Batches())
for _ in range(3):
    next(batches)
print("done", flush=True)
"""
INSIDE_PYTORCH = "yield torch.randn(300, 300) @ torch.randn(300, 300)"


def end_of(size: int, make: str) -> subprocess.CompletedProcess:
    """What became of a process that leaves its thread making batches, within four minutes."""
    command = [sys.executable, "-c", BUSY.format(size=size, make=make)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize("size", [1, 10**6], ids=["waiting for room", "busy"])
def test_the_thread_stops_first(size):
    """Without the patch the busy one aborts: return code -6."""
    ended = end_of(size, INSIDE_PYTORCH)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr[-2000:]


def test_a_thread_that_does_not_stop_is_not_waited_for_forever():
    ended = end_of(1, "yield 1; yield 2; yield 3; time.sleep(600)")
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr[-2000:]
