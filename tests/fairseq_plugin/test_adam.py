"""Adam (section 5.3) equals its algorithm in NumPy, and works inside fairseq's wrappers."""

import ast
import copy

import numpy as np
import paper_reference
import pytest
import torch
from fairseq import optim
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer
from fairseq_flags import training_config
from omegaconf import OmegaConf

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin import optimizer
from vaswani_plugin.fairseq_plugin.optimizer import VaswaniAdam

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


@pytest.mark.parametrize(
    "changes",
    # the paper's, and one that differs in each of its constants
    [{}, {"adam_betas": "(0.8, 0.98)"}, {"adam_betas": "(0.9, 0.999)"}, {"adam_eps": 1e-3}],
)
def test_trajectory_is_the_algorithms(changes):
    parameter = torch.nn.Parameter(start((6, 3)))
    optimizer = VaswaniAdam(make_config(**changes), [parameter])
    steps = gradients((6, 3))
    betas = ast.literal_eval(changes.get("adam_betas", "(0.9, 0.98)"))
    first, numbers = start((6, 3)).numpy(), [g.numpy() for g in steps]
    expected = paper_reference.adam(first, numbers, RATES, betas, changes.get("adam_eps", 1e-9))
    for gradient, rate, theta in zip(steps, RATES, expected, strict=True):
        optimizer.set_lr(rate)
        parameter.grad = gradient.clone()
        optimizer.step()
        np.testing.assert_allclose(parameter.detach().numpy(), theta, atol=1e-10, rtol=0)
    assert np.abs(expected[-1] - expected[0]).max() > 1e-3
    paper = paper_reference.adam(first, numbers, RATES)[-1]
    assert (np.abs(expected[-1] - paper).max() > 1e-7) == bool(changes)


def build(kind, config, parameter, **changes):
    """The optimizer, wrapped by one of fairseq's or by none."""
    cfg = copy.deepcopy(config)
    cfg.optimizer.update({"lr": [0.02], **changes})
    if kind is None:
        return optim.build_optimizer(cfg.optimizer, [parameter])
    return kind.build_optimizer(cfg, [parameter])


def test_resumes_on_another_device_from_older_checkpoints_too(bf16_config, monkeypatch):
    """PyTorch's fused kernel refuses a step on another device than the counts'."""
    saved = torch.nn.Parameter(start((4, 2)).float())
    saved.grad = torch.ones_like(saved)
    old = build(None, bf16_config, saved)
    old.step()
    state = old.state_dict()
    for group in state["param_groups"]:  # what the plugin's checkpoints had before it was AdamW's
        for key in set(group) - {"lr", "betas", "eps", "weight_decay", "params"}:
            del group[key]
    monkeypatch.setattr(optimizer, "devices_of_fused_kernels", lambda: ["meta"])  # as on a GPU
    resumed = build(None, bf16_config, torch.nn.Parameter(torch.empty_like(saved, device="meta")))
    resumed.load_state_dict(state)
    (state,) = resumed.optimizer.state.values()
    assert {name: (x.device.type, x.dtype) for name, x in state.items()} == dict.fromkeys(
        ("step", "exp_avg", "exp_avg_sq"), ("meta", torch.float32)
    )
    assert all(group["fused"] for group in resumed.optimizer.param_groups)


@pytest.mark.parametrize(
    ("kind", "overrides"), [(None, {"eps": 0.5}), (FP16Optimizer, {}), (AMPOptimizer, {})]
)
def test_settings_given_now_win_over_those_saved(bf16_config, kind, overrides):
    """As fairseq's trainer resumes: it passes --optimizer-overrides, by default {}, and no more."""
    half = kind is FP16Optimizer
    parameter = torch.nn.Parameter(start((2, 2)).to(torch.bfloat16 if half else torch.float32))
    changes = {"adam_betas": "(0.5, 0.6)", "adam_eps": 1e-3, "weight_decay": 0.1}
    old = build(kind, bf16_config, parameter, **changes)
    old.set_lr(0.7)
    new = build(kind, bf16_config, parameter, weight_decay=0.2)
    new.load_state_dict(old.state_dict(), overrides)
    (group,) = new.optimizer.param_groups
    assert group["betas"] == (0.9, 0.98) and group["weight_decay"] == 0.2
    assert group["eps"] == overrides.get("eps", 1e-9)
    assert group["lr"] == 0.7  # until the schedule sets it


@pytest.mark.parametrize(("kind", "clip_norm"), [(None, 0.0), (None, 0.5), (FP16Optimizer, 0.5)])
def test_clip_norm_scales_the_gradient(bf16_config, kind, clip_norm):
    """Seen in the first moment, which after one update is a tenth of the gradient."""
    parameter = torch.nn.Parameter(start((6, 3)).to(torch.bfloat16 if kind else torch.float32))
    gradient = gradients((6, 3))[0].bfloat16()
    optimizer = build(kind, bf16_config, parameter)
    optimizer.zero_grad()  # an update as fairseq's trainer makes it
    optimizer.backward((parameter * gradient.to(parameter.dtype)).sum())
    norm = optimizer.clip_grad_norm(clip_norm)
    optimizer.step()
    expected_norm = gradient.double().norm().item()
    assert norm.item() == pytest.approx(expected_norm, rel=5e-3) and expected_norm > 1
    assert optimizer.supports_flat_params  # --fp16 flattens, --bf16 doesn't
    (state,) = optimizer.optimizer.state.values()
    scale = 0.1 * (clip_norm / expected_norm if clip_norm else 1)
    np.testing.assert_allclose(
        state["exp_avg"].double().numpy(), scale * gradient.double().numpy(), rtol=1e-2, atol=1e-9
    )


@pytest.mark.parametrize(("device", "fused"), [("cpu", True), ("meta", None)])
def test_fused_where_there_is_a_kernel(device, fused):
    weight = torch.nn.Parameter(torch.ones(3, device=device))
    adam = VaswaniAdam(make_config(adam_betas=[0.9, 0.98]), [weight])
    weight.grad = torch.ones_like(weight)
    adam.step()
    assert adam.optimizer.defaults["fused"] is fused and adam.optimizer.defaults["betas"][1] == 0.98


@pytest.mark.parametrize("betas", ["0.9", "(0.9", "(0.9, 1.0)", "(0.9, 0.98, 0.99)"])
def test_betas_are_two_numbers(betas):
    with pytest.raises(UserError, match="--adam-betas .*: must be two numbers from 0 to below 1"):
        VaswaniAdam(make_config(adam_betas=betas), [torch.nn.Parameter(torch.ones(3))])
