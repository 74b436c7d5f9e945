"""Batches: every sentence in exactly one, and the same ones after a resume."""

import argparse
import inspect
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from fairseq.data import FairseqDataset, data_utils, iterators
from fairseq.tasks import fairseq_task

from vaswani_plugin.compat.replacing import replace


def keep_last_batch() -> None:
    """Defect: sentences are lost (fairseq-fixed 0.12.3.1; released fairseq 0.12.2 kept them).

    ``batch_by_size`` throws the last batch away when its size is no multiple of
    ``--required-batch-size-multiple`` (default 8): fairseq-generate translates 56 of 60 sentences,
    and training and validation lose some too. On an empty set it raises ``IndexError``.
    """
    original = data_utils.batch_by_size
    nine = original(np.arange(9), lambda i: 1, max_sentences=8, required_batch_size_multiple=8)
    if sum(map(len, nine)) == 9:
        return

    def batch_by_size(indices: Any, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(original).bind(indices, *args, **kwargs).arguments
        if given.get("fixed_shapes") is not None:
            return original(indices, *args, **kwargs)
        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, dtype=np.int64, count=-1)
        if len(indices) == 0:
            return []
        batches = original(indices, *args, **kwargs)
        kept = sum(map(len, batches))
        # Batches cut the indices in their order, so what is missing is one batch: the tail.
        return batches if kept == len(indices) else [*batches, indices[kept:]]

    replace(data_utils, "batch_by_size", batch_by_size)


class _Shuffled(FairseqDataset):
    """Eight sentences of one token in random order: what the probe below makes batches of."""

    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return 8

    def num_tokens(self, index: int) -> int:
        return 1

    def ordered_indices(self) -> np.ndarray:
        return np.random.permutation(len(self))


@contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _do_batches_depend_on_the_first_epoch() -> bool:
    """Whether a process that starts in epoch 2 makes other batches than one that reaches it."""

    def made_in(epoch: int) -> list[list[int]]:
        task = fairseq_task.FairseqTask(argparse.Namespace())
        made = task.get_batch_iterator(_Shuffled(), max_sentences=1, epoch=epoch)
        return [list(batch) for batch in made.frozen_batches]

    with _silent(fairseq_task.logger):
        return made_in(1) != made_in(2)


def rebuild_the_same_batches() -> None:
    """Defect: a run resumed in epoch 2 or later trains on other batches (fairseq-fixed 0.12.3.1).

    Batches are made once, from ``seed + epoch`` of the epoch in which the *process* started, and
    kept for all later epochs. An uninterrupted run starts in epoch 1; so does every resumed one
    now. Batches that fairseq makes anew in each epoch (``--update-epoch-batch-itr``, a task's
    ``rebuild_batches``, sharded data) already agree and are left alone.
    """
    if not _do_batches_depend_on_the_first_epoch():
        return
    original = fairseq_task.FairseqTask.get_batch_iterator

    def get_batch_iterator(
        self: fairseq_task.FairseqTask, *args: Any, **kwargs: Any
    ) -> iterators.EpochBatchIterating:
        given = inspect.signature(original).bind(self, *args, **kwargs)
        given.apply_defaults()
        values = given.arguments
        dataset, epoch = values["dataset"], values["epoch"]
        kept_for_all_epochs = (
            self.can_reuse_epoch_itr(dataset)
            and not values["disable_iterator_cache"]
            and not values["update_epoch_batch_itr"]
            and not getattr(self.cfg, "rebuild_batches", False)
        )
        if epoch <= 1 or not kept_for_all_epochs or dataset in self.dataset_to_epoch_iter:
            return original(*given.args, **given.kwargs)
        values["epoch"] = 1
        made = original(*given.args, **given.kwargs)
        made.epoch = epoch
        dataset.set_epoch(epoch)
        return made

    replace(fairseq_task.FairseqTask, "get_batch_iterator", get_batch_iterator)
