"""Data: every sentence in exactly one batch, the same ones after a resume, errors by name."""

import argparse

import numpy as np
import pytest
import torch
from fairseq import scoring
from fairseq.data import ConcatDataset, Dictionary, FairseqDataset, ListDataset, data_utils
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq_flags import training_config
from hypothesis import given
from hypothesis import strategies as st

import vaswani_plugin
from tests.conftest import STOCK_TINY
from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.patches.data import DictionaryError

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


def test_an_empty_set_has_no_batches():
    empty = data_utils.batch_by_size([], lambda i: 1, max_tokens=10, max_sentences=8)
    assert len(empty) == 0
    assert data_utils.batch_by_size([], lambda i: 1, required_batch_size_multiple=8) == []


@pytest.mark.parametrize("precomputed", [False, True])
def test_a_sentence_longer_than_a_batch_is_named(precomputed):
    lengths = np.array([3, 40, 5])
    with pytest.raises(UserError, match="sentence 2 has 40 tokens, more than --max-tokens 30: .*"):
        data_utils.batch_by_size(
            np.array([0, 2, 1]),
            lambda index: lengths[index],
            num_tokens_vec=lengths[[0, 2, 1]] if precomputed else None,
            max_tokens=30,
        )


def test_splits_are_concatenated():
    """--upsample-primary, -1 unless it is given, stands for once."""
    parts = [ListDataset([1, 2, 3], [1, 1, 1]), ListDataset([4, 5], [1, 1])]
    assert [*ConcatDataset(parts, [-1, 1])] == [*ConcatDataset(parts)] == [1, 2, 3, 4, 5]
    assert [*ConcatDataset(parts, [2, 1])] == [1, 2, 3, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("flags", "ignored"),
    [
        (["--valid-subset", "valid"], ["valid1", "valid2"]),
        (["--valid-subset", "valid,valid1"], ["valid2"]),
        (["--valid-subset", "valid,valid1,valid2"], []),
        (["--combine-valid-subsets"], []),
    ],
)
def test_the_given_validation_sets_are_known(tmp_path, flags, ignored):
    for name in ("valid.en-de.en.bin", "valid1.en-de.en.bin", "valid1.en-de.de.idx", "valid2.bin"):
        (tmp_path / name).touch()
    cfg = training_config("--arch", "vaswani_debug", *flags).copy()
    cfg.task.data = str(tmp_path)
    if not ignored:
        data_utils.raise_if_valid_subsets_unintentionally_ignored(cfg)
        return
    with pytest.raises(UserError, match="name them in --valid-subset") as error:
        data_utils.raise_if_valid_subsets_unintentionally_ignored(cfg)
    assert all(repr(name) in str(error.value) for name in ignored)
    assert ("'valid1'" in str(error.value)) == ("valid1" in ignored)


def test_fixed_shapes_are_left_to_fairseq():
    shaped = data_utils.batch_by_size(
        np.arange(6), lambda i: 4, fixed_shapes=[(2, 4)], required_batch_size_multiple=8
    )
    assert [list(batch) for batch in shaped] == [[0, 1], [2, 3], [4, 5]]


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


def batches_of(task, dataset, epoch, **options):
    made = task.get_batch_iterator(dataset, max_sentences=4, epoch=epoch, **options)
    assert made.epoch == epoch and dataset.epoch == epoch
    return [list(batch) for batch in made.frozen_batches]


def fresh_task(**options):
    return FairseqTask(argparse.Namespace(**options))


def test_a_later_epoch_starts_with_the_first_ones_batches():
    first = batches_of(fresh_task(), Sentences(), 1)
    assert batches_of(fresh_task(), Sentences(), 3) == first
    assert batches_of(fresh_task(), Sentences(), 3, seed=7) != first


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
    first = batches_of(fresh_task(**task), Sentences(**sentences), 1, **options)
    assert batches_of(fresh_task(**task), Sentences(**sentences), 2, **options) != first


def test_a_resumed_run_equals_the_uninterrupted_one(
    toy_data_bin, run_fairseq, stock_checkpoint, tmp_path
):
    # seven updates an epoch: stopped in the middle of epoch 3, continued to the end of epoch 4
    for stop in (["--max-update", 17], ["--max-epoch", 4]):
        run = run_fairseq("train", toy_data_bin, *STOCK_TINY, *stop, "--save-dir", tmp_path)
        assert run.returncode == 0, run.stderr
    resumed = torch.load(tmp_path / "checkpoint_last.pt")
    straight = torch.load(stock_checkpoint)
    assert resumed["optimizer_history"][-1] == straight["optimizer_history"][-1]
    for name, weight in straight["model"].items():
        assert torch.equal(resumed["model"][name], weight), name


@pytest.mark.parametrize(("positions", "is_scored"), [(8, True), (7, False)])
def test_a_text_of_which_nothing_fits_is_refused(positions, is_scored):
    class Blocks(Sentences):
        sizes = np.full(40, 8)

        def size(self, index):
            return 8

        def filter_indices_by_size(self, indices, max_sizes):
            fits = self.sizes[indices] <= max_sizes
            return indices[fits], indices[~fits].tolist()

    task = LanguageModelingTask(argparse.Namespace(), Dictionary())
    for args, options in (
        ((), {"max_tokens": 99, "max_positions": positions}),
        ((99, None, positions), {}),
    ):
        if is_scored:
            assert len(task.eval_lm_dataloader(Blocks(), *args, **options)) > 0
            continue
        with pytest.raises(UserError, match=r"into the 7 positions.*--tokens-per-sample so many"):
            task.eval_lm_dataloader(Blocks(), *args, **options)


@pytest.mark.parametrize(
    ("flags", "validated"),
    [(("--combine-valid-subsets",), ["valid"]), (("--valid-subset", "valid,valid1"), ["valid1"])],
)
def test_training_with_numbered_splits(toy_data_bin, run_fairseq, tmp_path, flags, validated):
    """60 pairs twice, and 20 for validation twice."""
    for path in toy_data_bin.iterdir():
        (tmp_path / path.name).symlink_to(path)
        name = path.name.partition(".")
        if name[0] in ("train", "valid"):
            (tmp_path / f"{name[0]}1.{name[2]}").symlink_to(path)
    run = run_fairseq(
        *("train", tmp_path, "--arch", "vaswani_debug", "--max-epoch", 1, "--cpu", *flags),
        *("--batch-size", 20, "--required-batch-size-multiple", 1, "--no-save"),
        *("--num-workers", 0, "--batch-order", "longer-side"),
    )
    assert run.returncode == 0, run.stderr
    assert "num_updates 6" in run.stdout + run.stderr
    for name in validated:
        assert f'begin validation on "{name}" subset' in run.stdout + run.stderr


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a 1\na 2\n", "Duplicate word"),
        (b"a\n", "Incorrect dictionary format"),
        (b"a x\n", "Incorrect dictionary format"),
        (b"\xff 1\n", "Incorrect encoding"),
    ],
)
def test_a_broken_dictionary_is_named(tmp_path, content, reason):
    path = tmp_path / "dict.en.txt"
    path.write_bytes(content)
    with pytest.raises(DictionaryError, match=rf"dict\.en\.txt: not a dictionary: .*{reason}"):
        Dictionary.load(str(path))


def test_others_load_as_before(tmp_path):
    (tmp_path / "dict.txt").write_text("a 2\nb 1\n<pad> 0 #fairseq:overwrite\n", encoding="utf-8")
    assert Dictionary.load(str(tmp_path / "dict.txt")).symbols[4:] == ["a", "b", "<pad>"]
    with pytest.raises(FileNotFoundError):
        Dictionary.load(str(tmp_path / "none.txt"))


def test_skipped_sentences_are_counted_behind_the_score():
    """The last line of fairseq-generate is "Generate test with beam=4: " and this text."""

    class Lengths:
        def filter_indices_by_size(self, indices, most):
            fits = np.array([3, 40, 5])[indices] <= most
            return indices[fits], indices[~fits].tolist()

    task, order, dictionary = FairseqTask(argparse.Namespace()), np.arange(3), Dictionary()
    assert list(task.filter_indices_by_size(order, Lengths(), 30, True)) == [0, 2]
    scorer = scoring.build_scorer("bleu", dictionary)
    scorer.add(torch.IntTensor([5, 6, 7, 8]), torch.IntTensor([5, 6, 7, 8]))
    score = scorer.result_string()
    assert score.startswith("BLEU4 = ") and score.endswith(", 1 of 3 sentences skipped")
    assert len(task.filter_indices_by_size(order, Lengths(), 99, True)) == 3
    assert "skipped" not in scorer.result_string()
