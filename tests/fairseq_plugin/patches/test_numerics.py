"""numpy's removed names, bfloat16 without XLA, and float32 weights that are resumed."""

import numpy as np
import pytest
import torch
from fairseq import optim
from fairseq.data import TokenBlockDataset, data_utils
from fairseq.optim.fp16_optimizer import FP16Optimizer
from fairseq_flags import training_config

import vaswani_plugin
from tests.conftest import STOCK_TINY
from vaswani_plugin.fairseq_plugin.patches import numerics

vaswani_plugin.register()


def test_sentences_as_blocks():
    sentences = [torch.arange(length) for length in (3, 5, 2)]
    blocks = TokenBlockDataset(sentences, [3, 5, 2], None, pad=1, eos=2, break_mode="eos")
    assert [block.tolist() for block in blocks] == [s.tolist() for s in sentences]


def test_buckets_are_percentiles_that_occur():
    sizes = np.array([9, 1, 4, 7, 3, 2, 8])
    assert data_utils.get_buckets(sizes, 3).tolist() == [3, 7, 9]


def test_training_in_bf16_with_buckets(toy_data_bin, run_fairseq, tmp_path):
    run = run_fairseq(
        *("train", toy_data_bin, *STOCK_TINY, "--max-update", 2, "--save-dir", tmp_path),
        *("--bf16", "--num-batch-buckets", 2),
    )
    assert run.returncode == 0, run.stderr
    # fairseq writes them as float32, but they are numbers of eight bits
    for name, weight in torch.load(tmp_path / "checkpoint_last.pt")["model"].items():
        assert torch.equal(weight, weight.bfloat16().to(weight.dtype)), name


def wrap(parameter: torch.nn.Parameter, flatten: bool, monkeypatch) -> FP16Optimizer:
    """Adam over float32 copies, one a parameter as with --bf16, or flattened as with --fp16."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    cfg = training_config("--arch", "vaswani_debug", "--bf16", "--cpu")
    masters = FP16Optimizer.build_fp32_params(cfg.optimizer, [parameter], flatten=flatten)
    adam = optim.build_optimizer(cfg.optimizer, [masters] if flatten else masters)
    return FP16Optimizer(cfg, [parameter], adam, masters)


def train(optimizer: FP16Optimizer, parameter: torch.nn.Parameter, updates: int) -> None:
    for number in range(updates):
        parameter.grad = torch.full_like(parameter, number - 1.5)
        optimizer._needs_sync = True
        optimizer.set_lr(0.002)
        optimizer.step()


@pytest.fixture
def weights() -> torch.Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(1)).bfloat16()


@pytest.mark.parametrize("flatten", [False, True])
def test_float32_weights_are_resumed(weights, flatten, monkeypatch, tmp_path):
    straight = torch.nn.Parameter(weights.clone())
    optimizer = wrap(straight, flatten, monkeypatch)
    train(optimizer, straight, 3)
    torch.save(optimizer.state_dict(), tmp_path / "state.pt")
    resumed = torch.nn.Parameter(straight.detach().clone())
    other = wrap(resumed, flatten, monkeypatch)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    (master,), (expected,) = numerics._masters(other), numerics._masters(optimizer)
    assert torch.equal(master, expected)
    assert not torch.equal(master, master.bfloat16().float())  # else rounding would lose nothing
    train(optimizer, straight, 4)
    train(other, resumed, 4)
    assert torch.equal(*(numerics._masters(each)[0] for each in (other, optimizer)))


@pytest.mark.parametrize("change", ["other weights", "other layout", "none saved"])
def test_float32_weights_of_another_model_are_not_loaded(weights, change, monkeypatch):
    saved = torch.nn.Parameter(weights.clone())
    optimizer = wrap(saved, False, monkeypatch)
    train(optimizer, saved, 3)
    state = optimizer.state_dict()
    if change == "other layout":
        state[numerics.MASTERS] = [state[numerics.MASTERS][0].view(-1)]
    if change == "none saved":
        del state[numerics.MASTERS]
    start = saved.detach() + (1 if change == "other weights" else 0)
    parameter = torch.nn.Parameter(start.clone())
    other = wrap(parameter, False, monkeypatch)
    other.load_state_dict(state)
    assert torch.equal(numerics._masters(other)[0], start.float())
