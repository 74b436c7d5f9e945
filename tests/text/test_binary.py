"""Numbers of binary texts, read without fairseq, are those that fairseq wrote."""

import numpy as np
import pytest
import torch
from fairseq.data import indexed_dataset

from vaswani_plugin.text.binary import read_numbers


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 8, 9, 10])
def test_it_reads_every_integer_type_of_fairseq(code, tmp_path):
    dtype = indexed_dataset._code_to_dtype[code]
    builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{tmp_path}/x.bin", dtype=dtype)
    largest = min(np.iinfo(dtype).max, np.iinfo(np.int64).max)
    for line in ([4, largest, 2], [], [2]):
        builder.add_item(torch.tensor(line))
    builder.finalize(f"{tmp_path}/x.idx")
    numbers, sizes = read_numbers(tmp_path / "x")
    assert numbers.tolist() == [4, largest, 2, 2] and sizes.tolist() == [3, 0, 1]
    assert (numbers.dtype, sizes.dtype) == (dtype, "int64")
