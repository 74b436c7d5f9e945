"""numpy's removed names, and bfloat16 without XLA."""

import numpy as np
import pytest
import torch
from fairseq import options
from fairseq.data import TokenBlockDataset, data_utils

import vaswani_plugin
from tests.conftest import STOCK_TINY

vaswani_plugin.register()


def test_sentences_as_blocks():
    sentences = [torch.arange(length) for length in (3, 5, 2)]
    blocks = TokenBlockDataset(sentences, [3, 5, 2], None, pad=1, eos=2, break_mode="eos")
    assert [block.tolist() for block in blocks] == [s.tolist() for s in sentences]


def test_buckets_are_percentiles_that_occur():
    sizes = np.array([9, 1, 4, 7, 3, 2, 8])
    assert data_utils.get_buckets(sizes, 3).tolist() == [3, 7, 9]


@pytest.mark.parametrize("flags", [["--bf16"], ["--memory-efficient-bf16"], ["--bf16", "--tpu"]])
def test_bf16_asks_for_no_tpu(flags):
    arguments = ["data", "--arch", "transformer_iwslt_de_en", *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    assert args.bf16 and args.tpu == ("--tpu" in flags)


def test_training_in_bf16_with_buckets(toy_data_bin, run_fairseq, tmp_path):
    run = run_fairseq(
        *("train", toy_data_bin, *STOCK_TINY, "--max-update", 2, "--save-dir", tmp_path),
        *("--bf16", "--num-batch-buckets", 2),
    )
    assert run.returncode == 0, run.stderr
    # fairseq writes them as float32, but they are numbers of eight bits
    for name, weight in torch.load(tmp_path / "checkpoint_last.pt")["model"].items():
        assert torch.equal(weight, weight.bfloat16().to(weight.dtype)), name
