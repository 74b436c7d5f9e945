"""The loss scale of --amp, on a CPU's scaler: gradients are divided by it once."""

import pytest
import torch
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq_flags import training_config

import vaswani_plugin
from vaswani_plugin.fairseq_plugin.adam import VaswaniAdam

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


def test_a_cpu_has_no_scale_even_where_there_is_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    weight = torch.nn.Parameter(torch.ones(3))
    assert not optimizer(weight, "--cpu").scaler.is_enabled()
