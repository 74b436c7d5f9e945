"""Data: every sentence in exactly one batch, the same ones after a resume; threads that end."""

import argparse
import json
import subprocess
import sys

import numpy as np
import pytest
from fairseq.data import FairseqDataset, data_utils
from fairseq.tasks.fairseq_task import FairseqTask
from hypothesis import given
from hypothesis import strategies as st

import vaswani_plugin
from vaswani_plugin.errors import UserError

vaswani_plugin.register()

LENGTHS = st.lists(st.integers(1, 30), max_size=60)


@given(LENGTHS, st.integers(1, 9), st.integers(30, 200), st.booleans())
def test_every_sentence_is_in_exactly_one_batch(lengths, multiple, max_tokens, precomputed):
    lengths = np.array(lengths, dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    batches = data_utils.batch_by_size(
        order,
        lambda index: lengths[index],
        num_tokens_vec=lengths[order] if precomputed else None,
        max_tokens=max_tokens,
        required_batch_size_multiple=multiple,
    )
    assert [index for batch in batches for index in batch] == order.tolist()
    for batch in batches:
        assert len(batch) * lengths[batch].max() <= max_tokens


def test_a_sentence_longer_than_a_batch_is_named():
    lengths = np.array([3, 40, 5])
    with pytest.raises(UserError, match="should not exceed max_tokens=30: raise --max-tokens"):
        data_utils.batch_by_size(np.arange(3), lambda index: lengths[index], max_tokens=30)


class Sentences(FairseqDataset):
    """Forty sentences of one token, in another order at each call."""

    def __init__(self, changes_with_epoch: bool = False):
        self.epoch = None
        self.changes_with_epoch = changes_with_epoch

    def __getitem__(self, index):
        return index

    def __len__(self):
        return 40

    def num_tokens(self, index):
        return 1

    def ordered_indices(self):
        return np.random.permutation(40)

    def set_epoch(self, epoch):
        self.epoch = epoch

    @property
    def can_reuse_epoch_itr_across_epochs(self):
        return not self.changes_with_epoch


def batches_of(dataset, epoch, task_options=None, **options):
    task = FairseqTask(argparse.Namespace(**(task_options or {})))
    made = task.get_batch_iterator(dataset, max_sentences=4, epoch=epoch, **options)
    assert made.epoch == epoch and dataset.epoch == epoch
    return [list(batch) for batch in made.frozen_batches]


def test_a_later_epoch_starts_with_the_first_ones_batches():
    first = batches_of(Sentences(), 1)
    assert batches_of(Sentences(), 3) == first
    assert batches_of(Sentences(), 3, seed=7) != first


@pytest.mark.parametrize(
    ("task", "sentences", "options"),
    [
        ({"rebuild_batches": True}, {}, {}),
        ({}, {"changes_with_epoch": True}, {}),
        ({}, {}, {"update_epoch_batch_itr": True}),
        ({}, {}, {"disable_iterator_cache": True}),
    ],
)
def test_batches_made_anew_in_each_epoch_stay_so(task, sentences, options):
    first = batches_of(Sentences(**sentences), 1, task, **options)
    assert batches_of(Sentences(**sentences), 2, task, **options) != first


# Imports once; each case is a fork that ends as Python ends.
BUSY = """
import json, os, sys, time
import torch
import vaswani_plugin
vaswani_plugin.register()
from fairseq.data.iterators import BufferedIterator
from vaswani_plugin.fairseq_plugin.patches import data


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


CASES = {"busy": (10**6, inside_pytorch), "stuck": (1, stuck)}
processes = {}
for name, case in CASES.items():
    processes[name] = os.fork()
    if not processes[name]:
        data.SECONDS_TO_STOP = 1.0 if name == "stuck" else 100.0
        leave_at_work(*case)
        sys.exit(7)
ends = {name: os.waitpid(process, 0)[1] for name, process in processes.items()}
print(json.dumps({name: os.waitstatus_to_exitcode(status) for name, status in ends.items()}))
"""


def test_threads_that_make_batches_stop_before_exit():
    """Without the patch the busy one aborts: return code -6."""
    command = [sys.executable, "-c", BUSY]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=240, check=True)
    assert json.loads(done.stdout) == {"busy": 7, "stuck": 7}
