"""A batch of pairs knows its lengths, and holds as many real tokens as are wanted."""

import shutil

import numpy as np
import pytest
import torch
from fairseq import tasks
from fairseq.data import LanguagePairDataset
from fairseq_flags import training_config
from model_factory import make_dictionary

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.tasks._common import (
    KnownLengths,
    fitting_max_tokens,
    indices_in_training,
)


def test_a_batch_is_fairseqs_and_knows_its_lengths(toy_data_bin):
    task = tasks.setup_task(toy_config(toy_data_bin).task)
    task.load_dataset("valid")
    pairs = task.dataset("valid")
    samples = [pairs[number] for number in (3, 0, 7)]
    (batch,) = torch.utils.data.DataLoader(
        pairs, num_workers=1, batch_sampler=[(3, 0, 7)], collate_fn=pairs.collater
    )
    lengths = batch.pop("known_lengths")
    assert isinstance(lengths, np.ndarray)
    assert lengths.tolist() == batch["net_input"]["src_lengths"].tolist()
    torch.testing.assert_close(batch, pairs.dataset.collater(samples), rtol=0, atol=0)
    assert pairs.collater([]) == {}


def toy_config(data, *flags: str):
    cfg = training_config("--task", "vaswani_translation", "--arch", "vaswani_debug", *flags).copy()
    cfg.task.data = str(data)
    return cfg


def test_several_training_sets_are_one(toy_data_bin, tmp_path):
    for path in toy_data_bin.iterdir():
        shutil.copy(path, tmp_path)
        shutil.copy(path, tmp_path / path.name.replace("train.", "train1."))
    task = tasks.setup_task(toy_config(tmp_path).task)
    task.load_dataset("train", combine=True)
    assert len(task.dataset("train")) == 120


def make_dataset(count: int = 4000) -> KnownLengths:
    rng = np.random.default_rng(3)
    source = rng.geometric(0.07, count) + 2
    target = np.maximum(1, (source * rng.lognormal(0, 0.3, count))).astype(np.int64)
    words = make_dictionary(3)
    sides = [[torch.full((size,), 5) for size in sizes] for sizes in (source, target)]
    return KnownLengths(LanguagePairDataset(sides[0], source, words, sides[1], target, words))


@pytest.mark.parametrize(("wanted", "multiple"), [(300, 1), (3125, 8)])
def test_batches_hold_the_real_tokens_that_are_wanted(wanted, multiple):
    dataset = make_dataset(20_000)
    pairs = dataset.dataset
    indices = indices_in_training(dataset, (60, 60))
    longer = np.maximum(pairs.src_sizes, pairs.tgt_sizes) > 60  # fairseq leaves them out
    assert set(indices) == set(np.flatnonzero(~longer)) and longer.any()
    limit = fitting_max_tokens(dataset, indices, 3 * wanted, wanted, multiple)
    limits = {"max_tokens": limit, "required_batch_size_multiple": multiple}
    batches = dataset.batch_by_size(indices, **limits)
    found = (pairs.src_sizes + pairs.tgt_sizes)[indices].sum() / 2 / len(batches)
    assert found == pytest.approx(wanted, rel=0.012)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ((900, 900, 8), "--real-tokens 900: batches of --max-tokens 900 hold .*; raise"),
        ((None, 900, 8), "--real-tokens 900 lowers --max-tokens: give that, too"),
    ],
)
def test_real_tokens_that_cannot_be_reached(limits, message):
    dataset = make_dataset()
    with pytest.raises(UserError, match=message):
        fitting_max_tokens(dataset, indices_in_training(dataset, None), *limits)


OF_TRAINER = {"train": {"grouped_shuffling": False}, "valid": {}}


def test_real_tokens_are_those_of_training(toy_data_bin, caplog):
    task = tasks.setup_task(toy_config(toy_data_bin, "--real-tokens", "40").task)
    counts, said, number = {}, "", 0
    for split in ("train", "valid"):
        task.load_dataset(split)
        with caplog.at_level("INFO"):
            for _ in range(2):  # each epoch asks; what is kept is not fitted again
                iterator = task.get_batch_iterator(task.dataset(split), 200, **OF_TRAINER[split])
            batches = iterator.frozen_batches
        pairs = task.dataset(split).dataset
        sides = pairs.src_sizes, pairs.tgt_sizes
        means = [np.mean([side[batch].sum() for batch in batches]) for side in sides]
        counts[split] = sum(means) / 2
        said = said or f"{means[0]:.0f} source and {means[1]:.0f} target tokens"
        number = len(batches) if split == "train" else number
    assert counts["train"] == pytest.approx(40, rel=0.1) and counts["valid"] > 80
    (line,) = [line for line in caplog.messages if "training batches of --max-tokens" in line]
    assert line.startswith(f"{number} ") and said in line


def test_real_tokens_and_sentences_exclude_each_other(toy_data_bin):
    task = tasks.setup_task(toy_config(toy_data_bin, "--real-tokens", "20").task)
    task.load_dataset("train")
    with pytest.raises(UserError, match="--real-tokens 20 with --batch-size 4: give one of the"):
        task.get_batch_iterator(task.dataset("train"), max_sentences=4, **OF_TRAINER["train"])
    assert task.get_batch_iterator(task.dataset("train"), max_sentences=4)  # as fairseq-validate
