"""The end of a process: whatever runs beside it stops first."""

import atexit
import itertools
import queue
import threading
import time
import weakref
from contextlib import suppress

from fairseq.data import iterators

from vaswani_plugin.compat.replacing import is_replaced, replace

SECONDS_TO_STOP = 10.0
"""To make the batch that is begun; who takes longer is left to Python."""


def stop_batch_threads_before_exit() -> None:
    """Defect: a training that is done aborts at its exit ("terminate called …", SIGABRT).

    fairseq-fixed 0.12.3.1 prepares batches in a thread that it leaves running. Python ends it while
    it shuts down, and where that happens inside PyTorch the whole process aborts: a recipe takes
    it for a failed training. Now these threads stop before.
    """
    original = iterators.BackgroundConsumer.run
    if is_replaced(original):
        return
    stopping = threading.Event()
    consumers: weakref.WeakSet[iterators.BackgroundConsumer] = weakref.WeakSet()

    def run(self: iterators.BackgroundConsumer) -> None:
        consumers.add(self)
        self._source = itertools.takewhile(lambda _: not stopping.is_set(), self._source)
        original(self)

    def stop() -> None:
        stopping.set()
        deadline = time.monotonic() + SECONDS_TO_STOP
        for consumer in list(consumers):
            while consumer.is_alive() and time.monotonic() < deadline:
                with suppress(queue.Empty):  # it may wait for room
                    consumer._queue.get_nowait()
                consumer.join(0.01)

    replace(iterators.BackgroundConsumer, "run", run)
    atexit.register(stop)
