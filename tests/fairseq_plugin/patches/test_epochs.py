"""An epoch that is resumed by other workers goes on where it was left."""

import itertools
import logging
from collections import Counter

import pytest
import torch
from fairseq.data import iterators
from fairseq.logging import meters

import vaswani_plugin
from vaswani_plugin.fairseq_plugin.patches import epochs

vaswani_plugin.register()


class Numbers(torch.utils.data.Dataset):
    """Samples that are their own numbers."""

    supports_prefetch = False

    def __init__(self, size: int) -> None:
        self.size = size

    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return self.size


def workers_of(count: int, batches: int, **options) -> list[iterators.EpochBatchIterator]:
    """One iterator for each worker, over batches of a single sample, shuffled."""
    parts = Numbers(batches), list, [[n] for n in range(batches)]
    return [
        iterators.EpochBatchIterator(*parts, num_shards=count, shard_id=k, **options)
        for k in range(count)
    ]


def train(workers, frequency: int, updates: int | None = None) -> list[int]:
    """Batches of the current epoch, update by update, as fairseq's loop takes them; all if None."""
    groups = [iterators.GroupedIterator(worker.next_epoch_itr(), frequency) for worker in workers]
    taken = itertools.islice(zip(*groups, strict=True), updates)
    return [batch[0] for update in taken for own in update for batch in own if batch]


WHOLE = set(range(23))


@pytest.mark.parametrize(
    ("before", "after"),
    # workers, update-freq: 23 batches are no multiple of any
    [((2, 1), (1, 2)), ((1, 2), (2, 1)), ((4, 1), (2, 2)), ((3, 1), (2, 1)), ((5, 1), (3, 1))],
)
@pytest.mark.parametrize("updates", [1, 3])
def test_nothing_is_skipped(before, after, updates, caplog):
    first = workers_of(before[0], 23)
    seen = Counter(train(first, before[1], updates))
    assert len(seen) == before[0] * before[1] * updates
    second = workers_of(after[0], 23)
    with caplog.at_level(logging.INFO, logger=epochs.__name__):
        for worker in second:
            worker.load_state_dict(first[0].state_dict())
    rest = Counter(train(second, after[1]))
    assert set(seen | rest) == WHOLE
    # what can be no multiple of the new workers comes twice, and no more than that
    again = len(seen) % after[0]
    assert sum((seen & rest).values()) == again
    assert (f"; {again} of them come again" in caplog.text) == bool(again)
    assert all(worker.next_epoch_idx == 2 for worker in second)
    assert set(train(second, after[1])) == WHOLE


def with_batches(batches) -> iterators.EpochBatchIterator:
    return iterators.EpochBatchIterator(Numbers(23), list, batches)


@pytest.mark.parametrize(
    ("workers", "options", "make"),
    [
        (1, {}, lambda: with_batches([[n, n + 1] for n in range(0, 22, 2)] + [[22]])),
        (1, {}, lambda: with_batches([[n] for n in range(21)] + [[22], [21]])),  # as many
        (1, {}, lambda: workers_of(1, 23, seed=2)[0]),
        (2, {"grouped_shuffling": True}, lambda: workers_of(3, 23, grouped_shuffling=True)[0]),
    ],
)
def test_other_batches_begin_their_epoch_anew(workers, options, make, caplog):
    first, second = workers_of(workers, 23, **options), make()
    train(first, 1, 7)
    second.load_state_dict(first[0].state_dict())
    assert "epoch 1 begins anew: its batches are others" in caplog.text
    assert second.iterations_in_epoch == 0 and second.next_epoch_idx == 1


def test_a_checkpoint_of_stock_fairseq_goes_on_as_there():
    (first,), (second,) = workers_of(1, 23), workers_of(1, 23)
    train([first], 1, 15)
    state = first.state_dict()
    del state[epochs.BATCHES], state[epochs.WORKERS]
    second.load_state_dict(state)
    assert second.iterations_in_epoch == 15
    (fewer,) = workers_of(1, 15)
    fewer.load_state_dict(state)
    assert fewer.iterations_in_epoch == 0


def test_the_clock_of_a_resumed_training_runs():
    """As fairseq's trainer does it: the log's meters come with the checkpoint."""
    before = meters.MetersDict()
    before.add_meter("wall", meters.StopwatchMeter(round=0), priority=790)
    before["wall"].start()
    resumed = meters.MetersDict()
    resumed.load_state_dict(before.state_dict())
    first = resumed["wall"].elapsed_time
    assert 0 < first < resumed["wall"].elapsed_time
