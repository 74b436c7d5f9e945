"""Pairs of sentences are read and padded as fairseq does it; a batch holds the tokens wanted."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import tasks
from fairseq.data import (
    LanguagePairDataset,
    TokenBlockDataset,
    language_pair_dataset,
)
from fairseq.data.indexed_dataset import MMapIndexedDataset, MMapIndexedDatasetBuilder
from fairseq_flags import training_config
from hypothesis import given
from hypothesis import strategies as st
from model_factory import make_dictionary

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.tasks._pairs import (
    SentencePairs,
    fitting_max_tokens,
    indices_in_training,
)

PAD, EOS = 1, 2
assert_equal = partial(torch.testing.assert_close, rtol=0, atol=0)
SENTENCE = st.lists(st.integers(PAD, 30), min_size=1, max_size=9).map(torch.tensor)


def pairs(sources, targets):
    number = np.arange(10, 10 + len(sources))[::-1]  # as numpy's, which fairseq's batches hold
    return [
        {"id": i, "source": source, "target": target}
        for i, source, target in zip(number, sources, targets, strict=True)
    ]


@given(
    st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=8),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, {"source": 11, "target": 4}]),
    st.sampled_from([1, 8]),
)
def test_batches_of_pairs_are_fairseqs(found, left, left_target, feeding, translated, to, multiple):
    sources, targets = zip(*found, strict=True)
    samples = pairs(sources, targets if translated else [None] * len(found))
    flags = {
        "left_pad_source": left,
        "left_pad_target": left_target,
        "input_feeding": feeding,
        "pad_to_multiple": multiple,
    }
    fairseqs = make_fairseqs(sources, targets if translated else None, **flags)
    batch = SentencePairs(fairseqs).collater(samples, to)
    known_lengths = batch.pop("known_lengths")
    assert known_lengths.tolist() == batch["net_input"]["src_lengths"].tolist()
    assert_equal(batch, language_pair_dataset.collate(samples, PAD, EOS, pad_to_length=to, **flags))


@pytest.fixture(scope="module", params=[np.uint16, np.int32])
def files(request, tmp_path_factory):
    """Sources and targets in mapped files; numbers of the kind that fairseq-preprocess chooses."""
    folder, rng = tmp_path_factory.mktemp("mapped"), np.random.default_rng(5)
    sides = []
    for name in ("source", "target"):
        builder = MMapIndexedDatasetBuilder(folder / f"{name}.bin", dtype=request.param)
        for _ in range(30):
            words = rng.integers(4, 20, rng.integers(0, 7))
            builder.add_item(torch.tensor([*words, EOS]))
        builder.finalize(str(folder / f"{name}.idx"))
        sides.append(MMapIndexedDataset(str(folder / name)))
    return sides


def make_fairseqs(source, target, **flags) -> LanguagePairDataset:
    words = make_dictionary(20)
    sides = [
        [None] * 3
        if side is None
        else [side, side.sizes if hasattr(side, "sizes") else [*map(len, side)], words]
        for side in (source, target)
    ]
    return LanguagePairDataset(*sides[0], *sides[1], **flags)


def make_pairs(source, target, **flags) -> SentencePairs:
    return SentencePairs(make_fairseqs(source, target, **flags))


def test_sentences_are_those_read_one_by_one(files):
    dataset = make_pairs(*files)
    numbers = np.array([3, 29, 0, 3, 17])
    found = dataset.__getitems__(numbers)
    assert [sample["id"] for sample in found] == numbers.tolist()
    for sample in found:
        assert_equal(sample, make_fairseqs(*files)[sample["id"]])
    source, target = files
    blocks = TokenBlockDataset(source, source.sizes, None, PAD, EOS, break_mode="eos")
    for other in (make_pairs(source, None), make_pairs(blocks, target)):
        found = other.__getitems__([1, 0])
        assert [sample["source"].tolist() for sample in found] == [
            source[i].tolist() for i in (1, 0)
        ]


def test_alignments_constraints_and_other_datasets_are_left_to_fairseq(files):
    for name in ("align_dataset", "constraints"):
        assert not SentencePairs.can_hold(make_fairseqs(*files, **{name: [torch.tensor([0])] * 30}))
    assert not SentencePairs.can_hold(make_pairs(*files))


def test_a_file_that_was_cut_off_is_named(files, tmp_path):
    for suffix in ("bin", "idx"):
        whole = Path(f"{files[0]._path}.{suffix}").read_bytes()
        (tmp_path / f"short.{suffix}").write_bytes(whole[:-3] if suffix == "bin" else whole)
    dataset = make_pairs(MMapIndexedDataset(str(tmp_path / "short")), None)
    assert len(dataset.__getitems__([2, 0])) == 2
    with pytest.raises(ValueError, match=r"short\.bin ends before sentence 30, .* again"):
        dataset.__getitems__([2, 29])


def make_dataset(count: int = 4000) -> SentencePairs:
    rng = np.random.default_rng(3)
    source = rng.geometric(0.07, count) + 2
    target = np.maximum(1, (source * rng.lognormal(0, 0.3, count))).astype(np.int64)
    words = make_dictionary(3)
    sides = [[torch.full((size,), 5) for size in sizes] for sizes in (source, target)]
    return SentencePairs(LanguagePairDataset(sides[0], source, words, sides[1], target, words))


@pytest.mark.parametrize(
    ("wanted", "multiple", "max_sentences"),
    # with 200 in a batch, the tokens of most batches don't depend on --max-tokens
    [(300, 1, None), (3125, 8, None), (600, 8, 200)],
)
def test_batches_hold_the_real_tokens_that_are_wanted(wanted, multiple, max_sentences):
    dataset = make_dataset(20_000)
    indices = indices_in_training(dataset, (60, 60))
    longer = np.maximum(dataset.src_sizes, dataset.tgt_sizes) > 60  # fairseq leaves them out
    assert set(indices) == set(np.flatnonzero(~longer)) and longer.any()
    most = 50_000 if max_sentences else 3 * wanted
    limit = fitting_max_tokens(dataset, indices, most, wanted, multiple, max_sentences)
    batches = dataset.batch_by_size(
        indices,
        max_tokens=limit,
        max_sentences=max_sentences,
        required_batch_size_multiple=multiple,
    )
    found = (dataset.src_sizes + dataset.tgt_sizes)[indices].sum() / 2 / len(batches)
    assert found == pytest.approx(wanted, rel=0.03)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ((900, 900, 8), "--real-tokens 900: batches of --max-tokens 900 hold .*; raise"),
        ((9000, 900, 8, 16), "--max-tokens 9000 and --batch-size 16 hold .*; raise"),
        ((900, 20, 1), "--real-tokens 20: the longest training pair has"),
        ((None, 900, 8), "--real-tokens 900 lowers --max-tokens, which is not given"),
    ],
)
def test_real_tokens_that_cannot_be_reached(limits, message):
    dataset = make_dataset()
    with pytest.raises(UserError, match=message):
        fitting_max_tokens(dataset, indices_in_training(dataset, None), *limits)


def test_real_tokens_are_those_of_training(toy_data_bin, caplog, monkeypatch):
    flags = ("--task", "vaswani_translation", "--arch", "vaswani_debug", "--real-tokens", "40")
    cfg = training_config(*flags).copy()
    cfg.task.data = str(toy_data_bin)
    task = tasks.setup_task(cfg.task)
    counts, number = {}, 0
    for split in ("train", "valid"):
        task.load_dataset(split)
        with caplog.at_level("INFO"):
            for _ in range(2):  # each epoch asks; what is kept is not fitted again
                iterator = task.get_batch_iterator(task.dataset(split), max_tokens=200)
            batches = iterator.frozen_batches
        sizes = task.dataset(split).src_sizes + task.dataset(split).tgt_sizes
        counts[split] = np.mean([sizes[batch].sum() / 2 for batch in batches])
        number = len(batches) if split == "train" else number
    assert counts["train"] == pytest.approx(40, rel=0.1) and counts["valid"] > 80
    (line,) = [line for line in caplog.messages if "training batches of --max-tokens" in line]
    assert line.startswith(f"{number} ")
    monkeypatch.setattr(SentencePairs, "can_hold", lambda pairs: False)
    task.load_dataset("valid")  # it is batched by padding
    with pytest.raises(UserError, match="^--real-tokens 40: not with --load-alignments; leave out"):
        task.load_dataset("train")
