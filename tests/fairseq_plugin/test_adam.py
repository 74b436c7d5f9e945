"""Adam (section 5.3) equals its algorithm in NumPy, and works inside fairseq's wrappers."""

import ast
import copy

import numpy as np
import paper_reference
import pytest
import torch
from fairseq import optim
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer, MemoryEfficientFP16Optimizer
from fairseq_flags import training_config
from omegaconf import OmegaConf

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.adam import MixedPrecisionAdam, VaswaniAdam

UPDATES = 12
RATES = [1e-3 * (1 + k % 5) for k in range(UPDATES)]


def gradients(shape, seed=3, updates=UPDATES) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scale = torch.logspace(-4, 1, shape[0], dtype=torch.float64)
    return [
        scale[:, None] * torch.randn(shape, generator=generator, dtype=torch.float64)
        for _ in range(updates)
    ]


def start(shape) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def make_config(**changes):
    return OmegaConf.create(
        {"adam_betas": "(0.9, 0.98)", "adam_eps": 1e-9, "weight_decay": 0.0, "lr": [1e-3]} | changes
    )


@pytest.fixture(scope="module")
def bf16_config():
    return training_config("--arch", "vaswani_debug", "--bf16", "--cpu")


def test_trajectory_is_the_algorithms():
    parameter = torch.nn.Parameter(start((6, 3)))
    optimizer = MixedPrecisionAdam([parameter])
    steps = gradients((6, 3))
    expected = paper_reference.adam(
        parameter.detach().numpy().copy(), [g.numpy() for g in steps], RATES
    )
    for gradient, rate, theta in zip(steps, RATES, expected, strict=True):
        optimizer.param_groups[0]["lr"] = rate
        parameter.grad = gradient.clone()
        optimizer.step()
        np.testing.assert_allclose(parameter.detach().numpy(), theta, atol=1e-10, rtol=0)
    assert np.abs(expected[-1] - expected[0]).max() > 1e-3


def test_epsilon_and_betas_count():
    """Each of the paper's three constants shows in the trajectory."""
    steps = [g.numpy() for g in gradients((6, 3))]
    paper = paper_reference.adam(start((6, 3)).numpy(), steps, RATES)[-1]
    for betas, eps in (((0.8, 0.98), 1e-9), ((0.9, 0.999), 1e-9), ((0.9, 0.98), 1e-3)):
        parameter = torch.nn.Parameter(start((6, 3)))
        optimizer = VaswaniAdam(make_config(adam_betas=str(betas), adam_eps=eps), [parameter])
        for gradient, rate in zip(gradients((6, 3)), RATES, strict=True):
            optimizer.set_lr(rate)
            parameter.grad = gradient
            optimizer.step()
        other = paper_reference.adam(start((6, 3)).numpy(), steps, RATES, betas, eps)[-1]
        np.testing.assert_allclose(parameter.detach().numpy(), other, atol=1e-10, rtol=0)
        assert np.abs(other - paper).max() > 1e-7


def test_weight_decay_is_decoupled():
    parameter = torch.nn.Parameter(start((4, 2)))
    before = parameter.detach().clone()
    optimizer = MixedPrecisionAdam([parameter], lr=0.1, weight_decay=0.5)
    parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    torch.testing.assert_close(parameter.detach(), before * (1 - 0.1 * 0.5), atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adam_eps": -1.0}, "--adam-eps is -1.0; it must be"),
        ({"weight_decay": float("nan")}, "--weight-decay is nan; it must be"),
        ({"adam_betas": "nonsense"}, "--adam-betas .* is no pair of numbers like"),
        ({"adam_betas": "(0.9, 0.98, 0.99)"}, "--adam-betas .* is no pair of numbers like"),
        ({"adam_betas": "(1.0, 0.98)"}, r"each beta must be in \[0, 1\)"),
    ],
)
def test_settings_out_of_range_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        VaswaniAdam(make_config(**changes), [torch.nn.Parameter(start((2, 2)))])


def feed(optimizer, parameter, gradient, clip_norm=0.0) -> torch.Tensor:
    """One update the way fairseq's trainer does it; returns the norm of the gradient."""
    optimizer.zero_grad()
    optimizer.backward((parameter * gradient.to(parameter.dtype)).sum())
    norm = optimizer.clip_grad_norm(clip_norm)
    optimizer.step()
    return norm


def wrapped(kind, config, parameter):
    cfg = copy.deepcopy(config)
    cfg.optimizer.lr = [0.02]
    return kind.build_optimizer(cfg, [parameter])


def test_under_fp16_optimizer_the_masters_follow_the_algorithm(bf16_config):
    parameter = torch.nn.Parameter(start((6, 3)).bfloat16())
    steps = [g.bfloat16() for g in gradients((6, 3))]
    expected = paper_reference.adam(
        parameter.detach().double().numpy(), [g.double().numpy() for g in steps], [0.02] * UPDATES
    )
    optimizer = wrapped(FP16Optimizer, bf16_config, parameter)
    for gradient, theta in zip(steps, expected, strict=True):
        feed(optimizer, parameter, gradient)
        (master,) = optimizer.fp32_params
        assert master.dtype == torch.float32
        np.testing.assert_allclose(master.detach().numpy(), theta, atol=1e-5, rtol=0)
        assert parameter.detach().equal(master.detach().bfloat16())
    assert np.abs(expected[-1] - expected[0]).max() > 0.01


@pytest.mark.parametrize("kind", [FP16Optimizer, MemoryEfficientFP16Optimizer])
def test_small_updates_of_bf16_weights_add_up(bf16_config, kind):
    """Of 1.0 the next bfloat16 is 1/256 away: a weight without a float32 copy would stay 1."""
    parameter = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    bf16_config = copy.deepcopy(bf16_config)
    bf16_config.optimizer.lr = [1e-3]
    optimizer = kind.build_optimizer(bf16_config, [parameter])
    for _ in range(200):
        feed(optimizer, parameter, torch.ones(4))
    assert parameter.dtype == torch.bfloat16
    np.testing.assert_allclose(parameter.detach().float().numpy(), 0.8, atol=0.004)


def test_the_float32_copy_of_other_weights_is_not_loaded():
    """As where an average of checkpoints, or a float32 run, goes on from such a state."""
    saved = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    saved.grad = torch.ones_like(saved)
    old = MixedPrecisionAdam([saved])
    old.step()
    for other in (torch.full((4,), 3.0).bfloat16(), saved.detach().float()):
        parameter = torch.nn.Parameter(other)
        new = MixedPrecisionAdam([parameter])
        new.load_state_dict(old.state_dict())
        assert "master" not in new.state[parameter]
        parameter.grad = torch.zeros_like(parameter)
        new.step()
        np.testing.assert_allclose(parameter.detach().float().numpy(), other.float(), atol=0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("wrapped_by", [None, MemoryEfficientFP16Optimizer])
def test_resumes_on_another_device_with_its_state_there(
    bf16_config, dtype, wrapped_by, monkeypatch
):
    """PyTorch's fused kernel refuses a step on another device than the moments'.

    fairseq's wrapper would put the moments back on the device that they were saved from.
    """
    if wrapped_by and dtype == torch.float32:
        pytest.skip("the wrapper is for half precision")
    monkeypatch.setattr(torch, "equal", lambda a, b: a.device == b.device)  # meta has no values

    def make(parameter: torch.nn.Parameter):
        if wrapped_by:
            return wrapped(wrapped_by, bf16_config, parameter)
        return MixedPrecisionAdam([parameter])

    saved = torch.nn.Parameter(start((4, 2)).to(dtype))
    saved.grad = torch.ones_like(saved)
    old = make(saved)
    old.step()
    parameter = torch.nn.Parameter(torch.empty_like(saved, device="meta"))
    resumed = make(parameter)
    resumed.load_state_dict(old.state_dict())
    parameter.grad = torch.empty_like(parameter)
    state = getattr(resumed, "optimizer", resumed).state[parameter]
    masters = () if dtype == torch.float32 else ("master",)
    assert {name: (x.device.type, x.dtype) for name, x in state.items()} == dict.fromkeys(
        ("step", "exp_avg", "exp_avg_sq", *masters), ("meta", torch.float32)
    )


@pytest.mark.parametrize("overrides", ["{}", "{'eps': 0.5}"])
@pytest.mark.parametrize("kind", [None, FP16Optimizer, MemoryEfficientFP16Optimizer, AMPOptimizer])
def test_settings_given_now_win_over_those_saved(bf16_config, kind, overrides):
    """As fairseq's trainer resumes: it passes --optimizer-overrides, by default {}, and no more."""
    is_half = kind in (FP16Optimizer, MemoryEfficientFP16Optimizer)
    parameter = torch.nn.Parameter(start((2, 2)).to(torch.bfloat16 if is_half else torch.float32))

    def make(**changes):
        cfg = copy.deepcopy(bf16_config)
        cfg.optimizer.update({"lr": [0.02], **changes})
        cfg.checkpoint.optimizer_overrides = overrides
        if kind is None:
            return cfg, optim.build_optimizer(cfg.optimizer, [parameter])
        return cfg, kind.build_optimizer(cfg, [parameter])

    _, old = make(adam_betas="(0.5, 0.6)", adam_eps=1e-3, weight_decay=0.1)
    old.set_lr(0.7)
    cfg, new = make()
    assert cfg.checkpoint.optimizer_overrides == overrides
    new.load_state_dict(old.state_dict(), ast.literal_eval(cfg.checkpoint.optimizer_overrides))
    (group,) = new.optimizer.param_groups
    assert group["betas"] == (0.9, 0.98) and group["weight_decay"] == 0.0
    assert group["eps"] == ast.literal_eval(overrides).get("eps", 1e-9)
    assert group["lr"] == 0.7  # until the schedule sets it


@pytest.mark.parametrize("clip_norm", [0.0, 0.5])
@pytest.mark.parametrize("kind", [None, FP16Optimizer, MemoryEfficientFP16Optimizer])
def test_clip_norm_scales_the_gradient(bf16_config, kind, clip_norm):
    """Seen in the first moment, which after one update is a tenth of the gradient."""
    half = kind is not None
    parameter = torch.nn.Parameter(start((6, 3)).to(torch.bfloat16 if half else torch.float32))
    gradient = gradients((6, 3))[0].bfloat16()
    if half:
        optimizer = wrapped(kind, bf16_config, parameter)
    else:
        optimizer = optim.build_optimizer(bf16_config.optimizer, [parameter])
    assert isinstance(optimizer.optimizer, MixedPrecisionAdam)
    norm = feed(optimizer, parameter, gradient, clip_norm)
    expected_norm = gradient.double().norm().item()
    assert norm.item() == pytest.approx(expected_norm, rel=5e-3) and expected_norm > 1
    (state,) = optimizer.optimizer.state.values()
    scale = 0.1 * (clip_norm / expected_norm if clip_norm else 1)
    np.testing.assert_allclose(
        state["exp_avg"].double().numpy(), scale * gradient.double().numpy(), rtol=1e-2, atol=1e-9
    )
