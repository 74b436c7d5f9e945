"""A process whose batches are still being made ends in order."""

import json
import subprocess
import sys

import pytest

# Imports once; each case is a fork that ends as Python ends.
BUSY = """
import json, os, sys, time
import torch
import vaswani_plugin
vaswani_plugin.register()
from fairseq.data.iterators import BufferedIterator


class Batches:
    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 10**6

    def __iter__(self):
        return self.make()


def inside_pytorch():
    while True:
        yield torch.randn(300, 300) @ torch.randn(300, 300)


def stuck():
    yield from range(3)
    time.sleep(600)


def leave_at_work(size, make):
    batches = BufferedIterator(size, Batches(make))
    for _ in range(3):
        next(batches)


CASES = {"waiting": (1, inside_pytorch), "busy": (10**6, inside_pytorch), "stuck": (1, stuck)}
processes = {}
for name, case in CASES.items():
    processes[name] = os.fork()
    if not processes[name]:
        leave_at_work(*case)
        sys.exit(7)
ends = {name: os.waitpid(process, 0)[1] for name, process in processes.items()}
print(json.dumps({name: os.waitstatus_to_exitcode(status) for name, status in ends.items()}))
"""


@pytest.fixture(scope="module")
def ends() -> dict[str, int]:
    """Exit codes of processes that leave their thread making batches, within four minutes."""
    command = [sys.executable, "-c", BUSY]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=240, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", ["waiting", "busy"])
def test_the_thread_stops_first(ends, case):
    """Without the patch the busy one aborts: return code -6."""
    assert ends[case] == 7


def test_a_thread_that_does_not_stop_is_not_waited_for_forever(ends):
    assert ends["stuck"] == 7
