"""Data: every sentence in exactly one batch, and the same batches after a resume."""

import atexit
import itertools
import queue
import threading
import time
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from fairseq.data import data_utils, iterators, token_block_dataset
from fairseq.tasks import fairseq_task

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.patches._patching import patch


def restore_removed_numpy_name() -> None:
    """``--sample-break-mode eos`` fails with an AttributeError.

    It uses ``np.compat.long``, which numpy 2 removed. numpy itself is not changed.
    """
    if token_block_dataset.np is np and not hasattr(np, "compat"):
        compat = types.SimpleNamespace(long=int)
        token_block_dataset.np = types.SimpleNamespace(**vars(np), compat=compat)


def keep_last_batch() -> None:
    """Sentences are lost: fairseq-generate translates 56 of 60.

    ``batch_by_size`` drops the last batch if its size is no multiple of the default 8 of
    ``--required-batch-size-multiple``, in training, too. An empty set raises ``IndexError``.
    """

    @patch(data_utils, "batch_by_size")
    def batch_by_size(original: Callable, indices: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, dtype=np.int64, count=-1)
        if len(indices) == 0:
            return []
        try:
            batches = original(indices, *args, **kwargs)
        except AssertionError as error:
            raise UserError(f"{error}: raise --max-tokens, or --max-tokens-valid") from None
        kept = sum(map(len, batches))
        # Batches are slices of the indices in order, so the missing indices are the last batch.
        return batches if kept == len(indices) else [*batches, indices[kept:]]


def rebuild_the_same_batches() -> None:
    """A run resumed in epoch 2 or later trains on other batches than an uninterrupted one.

    fairseq makes them once, by the epoch in which the *process* starts. Now each process makes
    those of epoch 1, unless they are made anew in each epoch.
    """

    @patch(fairseq_task.FairseqTask, "get_batch_iterator")
    def get_batch_iterator(original: Callable, self, dataset, *args, epoch=1, **kwargs) -> Any:
        made_anew = (
            not self.can_reuse_epoch_itr(dataset)
            or kwargs.get("disable_iterator_cache")
            or kwargs.get("update_epoch_batch_itr")
            or getattr(self.cfg, "rebuild_batches", False)
        )
        if made_anew or dataset in self.dataset_to_epoch_iter:
            return original(self, dataset, *args, epoch=epoch, **kwargs)
        made = original(self, dataset, *args, epoch=1, **kwargs)
        made.epoch = epoch
        dataset.set_epoch(epoch)
        return made


SECONDS_TO_STOP = 10.0


def stop_batch_threads_before_exit() -> None:
    """A finished training aborts at its exit ("terminate called ...", SIGABRT).

    Batches are prepared in a thread. If Python ends it inside PyTorch, the process aborts.
    """
    if hasattr(iterators.BackgroundConsumer.run, "patched_by"):
        return
    stopping = threading.Event()

    @patch(iterators.BackgroundConsumer, "run")
    def run(original: Callable, self: iterators.BackgroundConsumer) -> None:
        self._source = itertools.takewhile(lambda _: not stopping.is_set(), self._source)
        original(self)

    def stop() -> None:
        stopping.set()
        deadline = time.monotonic() + SECONDS_TO_STOP
        threads = threading.enumerate()
        for consumer in (t for t in threads if isinstance(t, iterators.BackgroundConsumer)):
            while consumer.is_alive() and time.monotonic() < deadline:
                with suppress(queue.Empty):  # the thread may wait for room in its queue
                    consumer._queue.get_nowait()
                consumer.join(0.01)

    atexit.register(stop)
