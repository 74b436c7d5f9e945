"""Gradients are divided by the loss scale of --amp once; float32 weights are resumed."""

import pytest
import torch
from fairseq import optim
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer
from fairseq_flags import training_config

import vaswani_plugin
from vaswani_plugin.fairseq_plugin.optimizer import VaswaniAdam
from vaswani_plugin.fairseq_plugin.patches import precision

vaswani_plugin.register()


def optimizer(weight: torch.nn.Parameter, *flags: str) -> AMPOptimizer:
    cfg = training_config("--arch", "vaswani_debug", "--amp", *flags).copy()
    return AMPOptimizer(cfg, [weight], VaswaniAdam(cfg.optimizer, [weight]))


@pytest.mark.parametrize("scale", [1.0, 128.0])
def test_a_gradient_is_unscaled_once(scale):
    weight = torch.nn.Parameter(torch.ones(3))
    amp = optimizer(weight)
    amp._grad_scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    amp.backward((2 * weight).sum())
    assert amp.clip_grad_norm(0.0).item() == pytest.approx(2 * 3**0.5)
    amp.step()
    # Adam's moments after one step are (1 - beta) times the gradient and its square.
    state = amp.optimizer.state[weight]
    torch.testing.assert_close(state["exp_avg"], torch.full((3,), 0.2))
    torch.testing.assert_close(state["exp_avg_sq"], torch.full((3,), 0.08))


def wrap(parameter: torch.nn.Parameter, flatten: bool, monkeypatch) -> FP16Optimizer:
    """Adam over float32 copies, one a parameter as with --bf16, or flattened as with --fp16."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    cfg = training_config("--arch", "vaswani_debug", "--bf16", "--cpu")
    masters = FP16Optimizer.build_fp32_params(cfg.optimizer, [parameter], flatten=flatten)
    adam = optim.build_optimizer(cfg.optimizer, [masters] if flatten else masters)
    return FP16Optimizer(cfg, [parameter], adam, masters)


def update(optimizer: FP16Optimizer, parameter: torch.nn.Parameter, updates: int) -> None:
    for number in range(updates):
        parameter.grad = torch.full_like(parameter, number - 1.5)
        optimizer._needs_sync = True
        optimizer.set_lr(0.002)
        optimizer.step()


@pytest.mark.parametrize("flatten", [False, True])
def test_float32_weights_of_half_precision_are_resumed(flatten, monkeypatch, tmp_path):
    straight = torch.nn.Parameter(torch.randn(5, 3).bfloat16())
    optimizer = wrap(straight, flatten, monkeypatch)
    update(optimizer, straight, 3)
    torch.save(optimizer.state_dict(), tmp_path / "state.pt")
    resumed = torch.nn.Parameter(straight.detach().clone())
    other = wrap(resumed, flatten, monkeypatch)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    (master,), (expected,) = precision._masters(other), precision._masters(optimizer)
    assert torch.equal(master, expected)
    assert not torch.equal(master, master.bfloat16().float())  # else rounding would lose nothing
    update(optimizer, straight, 4)
    update(other, resumed, 4)
    assert torch.equal(*(precision._masters(each)[0] for each in (other, optimizer)))


@pytest.mark.parametrize("change", ["other weights", "other layout", "none saved"])
def test_float32_weights_of_another_model_are_not_loaded(change, monkeypatch):
    saved = torch.nn.Parameter(torch.randn(5, 3).bfloat16())
    optimizer = wrap(saved, False, monkeypatch)
    update(optimizer, saved, 3)
    state = optimizer.state_dict()
    if change == "other layout":
        state[precision.MASTERS] = [state[precision.MASTERS][0].view(-1)]
    if change == "none saved":
        del state[precision.MASTERS]
    start = saved.detach() + (1 if change == "other weights" else 0)
    other = wrap(torch.nn.Parameter(start.clone()), False, monkeypatch)
    other.load_state_dict(state)
    assert torch.equal(precision._masters(other)[0], start.float())
