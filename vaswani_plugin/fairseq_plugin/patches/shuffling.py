"""The order of an epoch's batches: shuffled as asked, and every batch once."""

from collections.abc import Callable

from fairseq.data import iterators

from vaswani_plugin.fairseq_plugin.patches._patching import is_affected_version, patch

Batches = list[list[int]]
"""Numbers of the sentences of each batch."""


def shuffle_each_epoch_as_asked() -> None:
    """With ``--curriculum``, batches are never shuffled, except in a resumed run.

    fairseq makes one data loader for all epochs of a process. Its sampler keeps the choices of the
    process's first epoch: whether to shuffle (not with ``--curriculum``), and whether each worker
    keeps its batches (``--fix-batches-to-gpus``). A resumed process begins in another epoch. Now
    each epoch's own choices count.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if not is_affected_version():
        return

    @patch(iterators.EpochBatchIterator, "_get_iterator_for_epoch")
    def _get_iterator_for_epoch(
        original: Callable,
        self: iterators.EpochBatchIterator,
        epoch: int,
        shuffle: bool,
        fix_batches_to_gpus: bool = False,
        offset: int = 0,
    ) -> iterators.CountingIterator | None:
        if self.reuse_dataloader and self.dataloader is not None:
            self.epoch_batch_sampler.shuffle = shuffle
            self.epoch_batch_sampler.fix_batches_to_gpus = fix_batches_to_gpus
        return original(self, epoch, shuffle, fix_batches_to_gpus, offset)


def keep_batches_beyond_whole_groups() -> None:
    """``--grouped-shuffling`` with several workers loses batches in every epoch.

    fairseq shuffles groups of as many batches as there are workers. It drops the batches after the
    last whole group, which are the same ones in every epoch. Now they come last, after the groups.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    if not is_affected_version():
        return

    @patch(iterators.EpochBatchIterator, "ordered_batches")
    def ordered_batches(
        original: Callable,
        self: iterators.EpochBatchIterator,
        epoch: int,
        fix_batches_to_gpus: bool,
        shuffle: bool,
    ) -> Batches:
        kept = original(self, epoch, fix_batches_to_gpus, shuffle)
        if not self.grouped_shuffling:
            return kept
        shard = (self.num_shards, self.shard_id)
        unshuffled = list(iterators.ShardedIterator(self.frozen_batches, *shard, fill_value=[]))
        return [*kept, *unshuffled[len(kept) :]]
