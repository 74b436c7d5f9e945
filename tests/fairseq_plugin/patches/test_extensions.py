"""What stands in for fairseq's compiled extensions is equal to them; BLEU is sacreBLEU's."""

import sys
from importlib import import_module
from types import ModuleType

import fairseq.data
import numpy as np
import pytest
import sacrebleu
import torch
from fairseq.data import data_utils
from fairseq.data.token_block_dataset import TokenBlockDataset
from fairseq.scoring.bleu import BleuConfig, BleuStat, Scorer
from hypothesis import example, given, settings
from hypothesis import strategies as st

import vaswani_plugin
from vaswani_plugin.fairseq_plugin.patches import batching, extensions

vaswani_plugin.register()

FAST = ("fairseq.data.data_utils_fast", "fairseq.data.token_block_utils_fast")


def int64(values) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def as_lists(batches) -> list[list[int]]:
    return [list(map(int, batch)) for batch in batches]


@pytest.fixture
def scorer(monkeypatch) -> Scorer:
    """fairseq's, which counts n-grams in Python."""
    monkeypatch.setitem(sys.modules, "fairseq.libbleu", None)  # importing it fails
    for name in ("__init__", "reset", "add"):
        original = getattr(Scorer, name)
        monkeypatch.setattr(Scorer, name, getattr(original, "__wrapped__", original))
    extensions.count_ngrams_without_libbleu()
    return Scorer(BleuConfig(pad=1, eos=2, unk=3))


def test_bleu_is_sacrebleus(scorer):
    random = np.random.default_rng(1)
    references = [random.integers(4, 9, random.integers(5, 30)) for _ in range(50)]
    kept = [random.random(len(line)) < 0.9 for line in references]
    systems = [line[keep] for line, keep in zip(references, kept, strict=True)]
    for reference, system in zip(references, systems, strict=True):
        pair = (
            torch.IntTensor([*padding, *line, 2])
            for padding, line in (((1,), reference), ((), system))
        )
        scorer.add(*pair)
    lines = [[" ".join(map(str, line)) for line in side] for side in (systems, references)]
    options = {"tokenize": "none", "smooth_method": "none", "force": True}
    expected = sacrebleu.corpus_bleu(lines[0], [lines[1]], **options)
    assert scorer.score() == pytest.approx(expected.score)
    assert scorer.stat.reflen == expected.ref_len
    assert scorer.brevity() == pytest.approx(expected.bp)


def test_bleu_of_unknown_words_and_single_sentences(scorer):
    scorer.add(torch.IntTensor([5, 3, 2]), torch.IntTensor([5, 3, 2]))
    assert (scorer.stat.match1, scorer.stat.count1) == (1, 2)
    scorer.reset(one_init=True)
    assert [getattr(scorer.stat, name) for name, _ in BleuStat._fields_] == [0] * 4 + [1] * 6


def test_they_stand_in_only_where_fairseq_has_none(monkeypatch):
    for name in FAST:
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails
        monkeypatch.setattr(fairseq.data, name.rpartition(".")[2], None, raising=False)
    extensions.provide_missing_extensions()
    assert [sys.modules[name] for name in FAST] == [batching, batching]
    batches = data_utils.batch_by_size(np.arange(5), lambda index: 1, max_sentences=2)
    assert as_lists(batches) == [[0, 1], [2, 3], [4]]
    text = [torch.arange(3), torch.arange(4)]
    blocks = TokenBlockDataset(text, [3, 4], 5, pad=0, eos=1, break_mode="none")
    assert [block.tolist() for block in blocks] == [[0, 1, 2, 0, 1], [2, 3]]
    own = ModuleType("own")
    for name in FAST:
        monkeypatch.setitem(sys.modules, name, own)
    extensions.provide_missing_extensions()
    assert [sys.modules[name] for name in FAST] == [own, own]


def compiled(name: str) -> ModuleType:
    """An extension of the environment's fairseq."""
    found = import_module(f"fairseq.data.{name}")
    if found is batching:
        pytest.skip("NOT TESTED: fairseq was installed without its extensions")
    return found


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=80),
    st.sampled_from([-1, 0, 30, 45, 100, 400]),
    st.sampled_from([-1, 0, 1, 3, 8, 20]),
    st.integers(1, 9),
)
@example([2, 2, 2, 2, 2, 3, 9], 18, -1, 4)  # what waits for its batch grows too large itself
def test_batches_equal_the_compiled_ones(lengths, max_tokens, max_sentences, multiple):
    arguments = np.arange(len(lengths))[::-1].copy(), int64(lengths)
    limits = max_tokens, max_sentences, multiple
    modules = batching, compiled("data_utils_fast")
    ours, theirs = (each.batch_by_size_vec(*arguments, *limits) for each in modules)
    assert as_lists(ours) == as_lists(theirs)
    assert {batch.dtype for batch in ours} == {batch.dtype for batch in theirs}


@settings(max_examples=300)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=30).filter(any),
    st.sampled_from(["none", "eos", "complete", "complete_doc"]),
    st.integers(1, 12),
    st.integers(0, 3),
)
def test_blocks_equal_the_compiled_ones(sizes, mode, block_size, separator):
    theirs, sizes = compiled("token_block_utils_fast"), int64(sizes)
    try:
        expected = theirs._get_slice_indices_fast(sizes, mode, block_size, separator)
    except ValueError:  # where there is no block, the compiled one fails
        expected = np.zeros((0, 2), dtype=np.int64)
    found = batching._get_slice_indices_fast(sizes, mode, block_size, separator)
    assert found.dtype == np.int64 and found.tolist() == expected.tolist()
    places = [x._get_block_to_dataset_index_fast(sizes, expected) for x in (batching, theirs)]
    assert places[0].tolist() == places[1].tolist()
