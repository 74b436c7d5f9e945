"""Batches made of all their sentences at once are those that fairseq makes one by one."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset, TokenBlockDataset, data_utils, language_pair_dataset
from fairseq.data.indexed_dataset import MMapIndexedDataset, MMapIndexedDatasetBuilder
from hypothesis import given
from hypothesis import strategies as st
from model_factory import make_dictionary

from vaswani_plugin.compat import collating

PAD, EOS = 1, 2
FAIRSEQS_PADDING = data_utils.collate_tokens.__wrapped__
FAIRSEQS_COLLATE = language_pair_dataset.collate.__wrapped__
SENTENCE = st.lists(st.integers(PAD, 30), min_size=1, max_size=9).map(torch.tensor)


@given(
    st.lists(SENTENCE, min_size=1, max_size=6),
    st.sampled_from([None, EOS]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 3, 12]),
    st.sampled_from([1, 4, 8]),
    st.sampled_from([None, 2, 8]),
)
def test_padding_is_fairseqs(values, eos, left, moved, length, multiple, sentences):
    arguments = values, PAD, eos, left, moved, length, multiple, sentences
    expected, found = FAIRSEQS_PADDING(*arguments), data_utils.collate_tokens(*arguments)
    assert found.dtype == expected.dtype and found.equal(expected)


def test_sentences_of_other_types_and_of_no_tokens():
    values = [torch.tensor([5, 6], dtype=torch.int32), torch.tensor([], dtype=torch.int32)]
    padded = data_utils.collate_tokens([*values, values[0]], PAD)
    assert padded.dtype == torch.int32 and padded.tolist() == [[5, 6], [PAD, PAD], [5, 6]]
    shifted = data_utils.collate_tokens([values[1], *values], PAD, move_eos_to_beginning=True)
    assert shifted.tolist() == [[PAD, PAD], [6, 5], [PAD, PAD]]


def assert_same(found, expected):
    """Nested dictionaries of tensors and numbers."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_same(found[key], expected[key])
    elif isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype and found.equal(expected)
    else:
        assert found == expected


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
    arguments = samples, PAD, EOS, left, left_target, feeding, to, multiple
    mended = language_pair_dataset.collate(*arguments)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(data_utils, "collate_tokens", FAIRSEQS_PADDING)
        expected = FAIRSEQS_COLLATE(*arguments)
    assert_same(mended, expected)


def test_alignments_and_constraints_are_fairseqs():
    samples = pairs([torch.tensor([5, 6, EOS])] * 2, [torch.tensor([7, EOS])] * 2)
    for sample in samples:
        sample |= {"alignment": torch.tensor([0, 0]), "constraints": torch.tensor([4, 0])}
    batch = language_pair_dataset.collate(samples, PAD, EOS)
    assert batch["alignments"].tolist() == [[0, 0], [0, 2]]
    assert batch["constraints"].tolist() == [[4, 0], [4, 0]]
    assert language_pair_dataset.collate([], PAD, EOS) == {}


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


def make_pairs(source, target, **flags) -> LanguagePairDataset:
    words, sizes = make_dictionary(20), None if target is None else target.sizes
    return LanguagePairDataset(source, source.sizes, words, target, sizes, words, **flags)


@pytest.mark.parametrize(
    "flags",
    [{}, *({name: True} for name in collating.CHANGES_OF_A_PAIR)],
    ids=lambda flags: "".join(flags),
)
def test_sentences_are_those_read_one_by_one(files, flags):
    dataset = make_pairs(*files, **flags)
    numbers = np.array([3, 29, 0, 3, 17])
    found = dataset.__getitems__(numbers)
    assert [sample["id"] for sample in found] == numbers.tolist()
    for sample in found:
        assert_same(sample, dataset[sample["id"]])


def test_sources_alone_and_those_of_other_files(files):
    source, target = files
    alone = make_pairs(source, None)
    for sample in alone.__getitems__([7, 2]):
        assert sample["target"] is None and sample["source"].equal(source[int(sample["id"])])
    blocks = TokenBlockDataset(source, source.sizes, None, PAD, EOS, break_mode="eos")
    mixed = make_pairs(blocks, target).__getitems__([1, 0])
    assert [sample["source"].tolist() for sample in mixed] == [source[i].tolist() for i in (1, 0)]


def test_a_file_that_was_cut_off_is_named(files, tmp_path):
    for suffix in ("bin", "idx"):
        whole = Path(f"{files[0]._path}.{suffix}").read_bytes()
        (tmp_path / f"short.{suffix}").write_bytes(whole[:-3] if suffix == "bin" else whole)
    dataset = make_pairs(MMapIndexedDataset(str(tmp_path / "short")), None)
    assert len(dataset.__getitems__([2, 0])) == 2
    with pytest.raises(ValueError, match=r"short\.bin ends before sentence 30, .* again"):
        dataset.__getitems__([2, 29])


def test_pytorchs_loader_reads_them_so(files, monkeypatch):
    dataset = make_pairs(*files)
    monkeypatch.setattr(LanguagePairDataset, "__getitem__", None)
    loader = torch.utils.data.DataLoader(
        dataset, batch_sampler=[[4, 5], [6]], collate_fn=dataset.collater
    )
    assert [sorted(batch["id"].tolist()) for batch in loader] == [[4, 5], [6]]


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the system lists no threads")
def test_a_batch_starts_no_threads(files):
    """It is made in a thread beside the training, whose threads would wait for those."""
    dataset, seen = make_pairs(*files), []

    def make() -> None:
        for _ in range(2):
            dataset.collater(dataset.__getitems__(np.arange(30).repeat(25)))
            seen.append(len(os.listdir("/proc/self/task")))

    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        before = len(os.listdir("/proc/self/task"))
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
    finally:
        torch.set_num_threads(threads)
    assert seen == [before + 1] * 2
