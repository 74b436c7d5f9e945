"""The thread that prepares batches ends before the process."""

import atexit
import itertools
import queue
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress

from fairseq.data import iterators

from vaswani_plugin.fairseq_plugin.patches._patching import is_patched, patch

SECONDS_TO_STOP = 10.0
"""Seconds to wait for the batch that is being made; a slower thread is left to Python."""


def stop_batch_threads_before_exit() -> None:
    """A finished training aborts at its exit ("terminate called ...", SIGABRT).

    Batches are prepared in a thread that keeps running. Python ends the thread while it shuts down.
    If that happens inside PyTorch, the whole process aborts, and scripts see a failed training. Now
    these threads stop before the shutdown.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if is_patched(iterators.BackgroundConsumer.run):
        return
    stopping = threading.Event()
    consumers: weakref.WeakSet[iterators.BackgroundConsumer] = weakref.WeakSet()

    @patch(iterators.BackgroundConsumer, "run")
    def run(original: Callable, self: iterators.BackgroundConsumer) -> None:
        consumers.add(self)
        self._source = itertools.takewhile(lambda _: not stopping.is_set(), self._source)
        original(self)

    def stop() -> None:
        stopping.set()
        deadline = time.monotonic() + SECONDS_TO_STOP
        for consumer in list(consumers):
            while consumer.is_alive() and time.monotonic() < deadline:
                with suppress(queue.Empty):  # the thread may wait for room in its queue
                    consumer._queue.get_nowait()
                consumer.join(0.01)

    atexit.register(stop)
