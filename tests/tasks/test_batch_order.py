"""Batches are full: the pairs that share one are of one length on both sides."""

import numpy as np
import pytest
import torch
from fairseq import tasks
from fairseq.data import LanguagePairDataset, data_utils
from fairseq_flags import training_config
from hypothesis import given
from hypothesis import strategies as st
from model_factory import make_dictionary

from vaswani_plugin.tasks._batch_order import PairsByLongerSide, by_longer_side

SIZES = st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), max_size=40)


@given(SIZES)
def test_neighbours_are_alike(sizes):
    """By the definition, pair by pair."""
    source, target = np.array(sizes, dtype=np.int32).reshape(-1, 2).T
    order = by_longer_side(source, target).tolist()
    assert sorted(order) == list(range(len(sizes)))
    for one, next_one in zip(order, order[1:], strict=False):
        longer, then = max(sizes[one]), max(sizes[next_one])
        assert longer <= then
        if longer == then:
            growth = np.subtract(*sizes[next_one]) - np.subtract(*sizes[one])
            assert growth <= 0 if longer % 2 else growth >= 0
            assert growth or one < next_one


def make_dataset(count: int = 4000, seed: int = 3, **flags) -> PairsByLongerSide:
    rng = np.random.default_rng(seed)
    source = rng.geometric(0.07, count) + 2
    target = np.maximum(1, (source * rng.lognormal(0, 0.3, count))).astype(np.int64)
    words = make_dictionary(3)
    sides = [[torch.full((size,), 5) for size in sizes] for sizes in (source, target)]
    return PairsByLongerSide(sides[0], source, words, sides[1], target, words, **flags)


def padded_share(dataset, order, max_tokens: int) -> tuple[int, float]:
    """Batches, and the share of both sides' positions in them that is padding."""
    batches = dataset.batch_by_size(order, max_tokens=max_tokens)
    assert sorted(np.concatenate(batches)) == list(range(len(dataset)))
    filled = sum(
        len(batch) * (dataset.src_sizes[batch].max() + dataset.tgt_sizes[batch].max())
        for batch in batches
    )
    return len(batches), 1 - dataset.sizes.sum() / filled


@pytest.mark.parametrize("max_tokens", [500, 2000, 8000])
def test_batches_are_fewer_and_less_padded_than_fairseqs(max_tokens):
    dataset = make_dataset()
    fewer, less = padded_share(dataset, dataset.ordered_indices(), max_tokens)
    fairseqs = LanguagePairDataset.ordered_indices(dataset)
    more, share = padded_share(dataset, fairseqs, max_tokens)
    assert fewer < 0.97 * more and less < 0.75 * share


def test_a_seed_decides_on_the_order_of_equal_pairs():
    dataset, orders = make_dataset(), []
    for seed in (1, 1, 2):
        with data_utils.numpy_seed(seed):
            orders.append(dataset.ordered_indices().tolist())
    assert orders[0] == orders[1] != orders[2]
    fixed = make_dataset(shuffle=False)
    assert fixed.ordered_indices().tolist() == fixed.ordered_indices().tolist()


def test_sources_alone_are_fairseqs():
    words, sizes = make_dictionary(3), [3, 1, 2]
    source = [torch.full((size,), 5) for size in sizes]
    dataset = PairsByLongerSide(source, sizes, words)
    assert dataset.ordered_indices().tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("flags", "kind"),
    [((), PairsByLongerSide), (("--batch-order", "fairseq"), LanguagePairDataset)],
    ids=lambda value: value[-1] if isinstance(value, tuple) and value else "",
)
def test_the_flag_is_for_training(toy_data_bin, flags, kind):
    cfg = training_config("--task", "vaswani_translation", "--arch", "vaswani_debug", *flags).copy()
    cfg.task.data = str(toy_data_bin)
    task = tasks.setup_task(cfg.task)
    for split in ("train", "valid", "test"):
        task.load_dataset(split)
        assert type(task.dataset(split)) is (kind if split == "train" else LanguagePairDataset)
    trained = task.get_batch_iterator(task.dataset("train"), max_tokens=50).next_epoch_itr()
    assert sorted(i for batch in trained for i in batch["id"].tolist()) == list(range(60))
