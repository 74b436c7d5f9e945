"""What a trainer can't do, or does not do, is said before it begins."""

import logging
from types import SimpleNamespace

import pytest
import torch
from model_factory import make_model, make_task
from recurrent_models import make_recurrent
from torch import nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.training.refusals import WITH_ALIGNMENT, refuse_what_cannot_train

ANY = nn.Identity()


def config(schedule="vaswani", lr=(0.25,), **common) -> SimpleNamespace:
    return SimpleNamespace(
        common=SimpleNamespace(**common),
        lr_scheduler=SimpleNamespace(_name=schedule),
        optimization=SimpleNamespace(lr=list(lr)),
    )


def test_half_precision_on_a_cpu(monkeypatch):
    with pytest.raises(UserError, match="--fp16 is for GPUs; on a CPU give --amp or --bf16"):
        refuse_what_cannot_train(config(fp16=True, cpu=True), ANY)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    refuse_what_cannot_train(config(fp16=True, cpu=False), ANY)


def test_bfloat16_weights_without_masters():
    with pytest.raises(UserError, match="--bf16 and --amp: .*; leave out one of them"):
        refuse_what_cannot_train(config(bf16=True, amp=True), ANY)
    for alone in ("bf16", "amp"):
        refuse_what_cannot_train(config(**{alone: True}), ANY)


@pytest.mark.parametrize("flag", ["memory_efficient_bf16", "memory_efficient_fp16"])
def test_an_optimizer_that_keeps_no_float32_copies(flag):
    cfg = config(**{flag: True})
    cfg.optimizer = SimpleNamespace(_name="adam")
    with pytest.raises(UserError, match="--optimizer adam keeps no float32 copies of weights"):
        refuse_what_cannot_train(cfg, ANY)
    cfg.optimizer._name = "vaswani_adam"
    refuse_what_cannot_train(cfg, ANY)


@pytest.mark.parametrize(
    ("schedule", "lr", "is_said"),
    [("vaswani", (0.1,), True), ("vaswani", (0.25,), False), ("fixed", (0.1,), False)],
)
def test_a_rate_without_effect(caplog, schedule, lr, is_said):
    with caplog.at_level(logging.WARNING):
        refuse_what_cannot_train(config(schedule, lr), ANY)
    assert ("--lr 0.1 has no effect" in caplog.text) == is_said


def test_a_model_without_attention_has_none_to_align():
    cfg = SimpleNamespace(criterion=SimpleNamespace(_name=WITH_ALIGNMENT))
    task = make_task(20)
    with pytest.raises(UserError, match="the model has no attention to align; choose another"):
        refuse_what_cannot_train(cfg, make_recurrent("seq2seq", task))
    for model in (make_recurrent("attention", task), make_model(task)):
        refuse_what_cannot_train(cfg, model)


def test_a_bare_configuration_is_borne():
    refuse_what_cannot_train(SimpleNamespace(), ANY)
