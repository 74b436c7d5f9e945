"""What a trainer can't do, or does not do, is said before it begins."""

import logging
from types import SimpleNamespace

import pytest
import torch

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.training.trainer import refuse_what_cannot_train


def config(schedule="vaswani", lr=(0.25,), **common) -> SimpleNamespace:
    return SimpleNamespace(
        common=SimpleNamespace(**common),
        lr_scheduler=SimpleNamespace(_name=schedule),
        optimization=SimpleNamespace(lr=list(lr)),
    )


def test_half_precision_on_a_cpu(monkeypatch):
    with pytest.raises(UserError, match="--fp16 is for GPUs; on a CPU give --amp or --bf16"):
        refuse_what_cannot_train(config(fp16=True, cpu=True))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    refuse_what_cannot_train(config(fp16=True, cpu=False))


def test_bfloat16_weights_without_masters():
    with pytest.raises(UserError, match="--bf16 and --amp: .*; leave out one of them"):
        refuse_what_cannot_train(config(bf16=True, amp=True))
    for alone in ("bf16", "amp"):
        refuse_what_cannot_train(config(**{alone: True}))


@pytest.mark.parametrize("flag", ["memory_efficient_bf16", "memory_efficient_fp16"])
def test_an_optimizer_that_keeps_no_float32_copies(flag):
    cfg = config(**{flag: True})
    cfg.optimizer = SimpleNamespace(_name="adam")
    with pytest.raises(UserError, match="--optimizer adam keeps no float32 copies of weights"):
        refuse_what_cannot_train(cfg)
    cfg.optimizer._name = "vaswani_adam"
    refuse_what_cannot_train(cfg)


@pytest.mark.parametrize(
    ("schedule", "lr", "is_said"),
    [("vaswani", (0.1,), True), ("vaswani", (0.25,), False), ("fixed", (0.1,), False)],
)
def test_a_rate_without_effect(caplog, schedule, lr, is_said):
    with caplog.at_level(logging.WARNING):
        refuse_what_cannot_train(config(schedule, lr))
    assert ("--lr 0.1 has no effect" in caplog.text) == is_said


def test_a_bare_configuration_is_borne():
    refuse_what_cannot_train(SimpleNamespace())
