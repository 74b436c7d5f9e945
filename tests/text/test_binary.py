"""Numbers of binary texts, read without fairseq, are those that fairseq wrote."""

import numpy as np
import pytest
import torch
from fairseq.data import indexed_dataset

from vaswani_plugin.text.binary import read_numbers

LINES = [[4, 5, 2], [2], [], [9, 65_000, 2]]


@pytest.mark.parametrize("vocabulary", [100, 70_000, None])
def test_it_reads_what_fairseq_wrote(vocabulary, tmp_path):
    """fairseq's numbers have 16 or 32 bits, by the size of the dictionary."""
    builder = indexed_dataset.make_builder(f"{tmp_path}/x.bin", "mmap", vocabulary)
    for line in LINES:
        builder.add_item(torch.tensor(line, dtype=torch.int32))
    builder.finalize(f"{tmp_path}/x.idx")
    numbers, sizes = read_numbers(tmp_path / "x")
    assert numbers.tolist() == sum(LINES, []) and sizes.tolist() == list(map(len, LINES))
    assert numbers.dtype == sizes.dtype == "int64"


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 8, 9, 10])
def test_it_reads_every_integer_type_of_fairseq(code, tmp_path):
    dtype = indexed_dataset._code_to_dtype[code]
    builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{tmp_path}/x.bin", dtype=dtype)
    largest = min(np.iinfo(dtype).max, np.iinfo(np.int64).max)
    for line in ([4, largest, 2], [2]):
        builder.add_item(torch.tensor(line))
    builder.finalize(f"{tmp_path}/x.idx")
    numbers, sizes = read_numbers(tmp_path / "x")
    assert numbers.tolist() == [4, largest, 2, 2] and sizes.tolist() == [3, 1]
