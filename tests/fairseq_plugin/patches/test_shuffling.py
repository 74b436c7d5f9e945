"""Each epoch is shuffled as asked, and has every batch once."""

from collections import Counter

import pytest
from fairseq.data import iterators
from numbered_samples import Numbers

import vaswani_plugin

vaswani_plugin.register()


class Prefetched(Numbers):
    """A dataset of which fairseq shards the batches before it shuffles them, if asked."""

    supports_prefetch = True

    def prefetch(self, indices: list[int]) -> None:
        """Nothing is read ahead."""


def make_iterator(dataset: Numbers, **options) -> iterators.EpochBatchIterator:
    """Over batches of one sample, with one data loader for all epochs as in fairseq-train."""
    batches = [[n] for n in range(len(dataset))]
    return iterators.EpochBatchIterator(dataset, list, batches, reuse_dataloader=True, **options)


def epoch_of(batches: iterators.EpochBatchIterator, **options) -> list[int]:
    """The samples of the next epoch; -1 for a worker's empty batch."""
    return [batch[0] if batch else -1 for batch in batches.next_epoch_itr(**options)]


def test_a_curriculum_ends() -> None:
    """As --curriculum 1: the first epoch in order, the others shuffled, also after a resume."""
    straight = make_iterator(Numbers(30))
    first, *others = (epoch_of(straight, shuffle=number > 1) for number in (1, 2, 3))
    assert first == sorted(first)
    for epoch in others:
        assert sorted(epoch) == first != epoch
    assert others[0] != others[1]
    resumed = make_iterator(Numbers(30))
    resumed.load_state_dict({"version": 2, "epoch": 3, "iterations_in_epoch": 0, "shuffle": True})
    assert epoch_of(resumed, shuffle=True) == others[1]


def test_a_curriculum_that_is_resumed_within_its_last_epoch_ends() -> None:
    straight, resumed = make_iterator(Numbers(30)), make_iterator(Numbers(30))
    state = {"version": 2, "epoch": 1, "iterations_in_epoch": 12, "shuffle": False}
    resumed.load_state_dict(state)
    assert epoch_of(resumed, shuffle=False) == epoch_of(straight, shuffle=False)[12:]
    assert epoch_of(resumed, shuffle=True) == epoch_of(straight, shuffle=True)


def test_batches_are_fixed_to_workers_as_asked() -> None:
    """Worker 1 of 2 gets its own batches, the odd ones, when asked."""
    worker = make_iterator(Prefetched(30), num_shards=2, shard_id=1)
    odd = set(range(1, 30, 2))
    assert set(epoch_of(worker)) != odd
    assert set(epoch_of(worker, fix_batches_to_gpus=True)) == odd
    assert set(epoch_of(worker)) != odd


@pytest.mark.parametrize("kind", [Numbers, Prefetched])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(("count", "workers"), [(9, 1), (9, 2), (9, 4), (8, 4), (3, 4), (11, 3)])
def test_grouped_shuffling_has_every_batch_once(kind, fixed, count, workers) -> None:
    makers = [
        make_iterator(kind(count), num_shards=workers, shard_id=k, grouped_shuffling=True)
        for k in range(workers)
    ]
    for _ in range(2):
        epochs = [epoch_of(each, fix_batches_to_gpus=fixed) for each in makers]
        seen = Counter(batch for epoch in epochs for batch in epoch if batch >= 0)
        assert seen == Counter(range(count))
        assert {len(epoch) for epoch in epochs} == {len(makers[0])}


def test_groups_stay_together() -> None:
    """Batches of like length, neighbours before the shuffling, are those of one update."""
    makers = [
        make_iterator(Numbers(23), num_shards=4, shard_id=k, grouped_shuffling=True)
        for k in range(4)
    ]
    updates = list(zip(*map(epoch_of, makers), strict=True))
    whole = [tuple(range(n, n + 4)) for n in range(0, 20, 4)]
    assert sorted(updates[:-1]) == whole != updates[:-1]
    assert updates[-1] == (20, 21, 22, -1)
