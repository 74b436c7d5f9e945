"""What fairseq-preprocess writes, read without fairseq: dictionaries and numbers."""

import hashlib

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary as FairseqDictionary
from fairseq.data import indexed_dataset
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.binary import read_numbers
from vaswani_plugin.text.dictionary import Dictionary

SYMBOL = st.one_of(
    st.sampled_from(["a", "b@@", "<s>", "<unk>", "madeupword0000", "a b", "\u2028", "\x85x", ""]),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=4),
)
COUNT = st.sampled_from(["1", "0", "-3", "1_000", " 7", "x", "", "1.5", "\u0663"])
END = st.sampled_from(["\n", "\n", "\n", "\r\n", " \n", "\r", " #fairseq:overwrite\n"])
LINES = st.lists(st.tuples(SYMBOL, st.just(" ") | st.just(""), COUNT, END).map("".join), max_size=6)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("dictionary") / "dict.en.txt"


@settings(max_examples=300, deadline=None)
@given(LINES)
@example(["a 1\n", "b 1\n", "a 2 #fairseq:overwrite\n", "c 1\n"])
@example(["<pad> 2 #fairseq:overwrite\n", "a 1\n"])
@example(["a 1\n", "a 1\n"])
@example(["a 1\n", "<unk> 1\n"])
@example(["a 1\n", "\n"])
@example(["a b 1\n", "\u2028 1\n"])
@example(["a 1 #fairseq:overwrite #fairseq:overwrite\n"])
def test_it_is_fairseqs(path, lines):
    path.write_bytes("".join(lines).encode("utf-8"))
    try:
        expected = FairseqDictionary.load(str(path))
    except Exception:
        with pytest.raises(UserError, match=r"dict.en.txt:\d+: .*: not a dictionary; give the one"):
            Dictionary.load(path)
        return
    found = Dictionary.load(path)
    assert found.symbols == expected.symbols and len(found) == len(expected)
    for symbol in (*expected.symbols, "missing", ""):
        assert found.index(symbol) == expected.index(symbol)
        assert (symbol in found) == (symbol in expected)
    assert found.indices == expected.indices
    numbers = list(range(len(found))) * 2
    assert found.string(numbers) == expected.string(numbers)
    assert [found[n] for n in numbers] == [expected[n] for n in numbers]
    for name in ("pad", "eos", "unk"):
        assert getattr(found, name)() == getattr(expected, name)()
    assert found.nspecial == expected.nspecial
    assert found.digest() == hashlib.sha256("\n".join(expected.symbols).encode()).hexdigest()


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
