"""fairseq's commands train with our trainer; what it can't do is said before it begins."""

import logging
import sys
import types

import fairseq.trainer
import pytest
from fairseq_flags import training_config
from omegaconf import open_dict

import vaswani_plugin
from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.training import trainer
from vaswani_plugin.fairseq_plugin.training.trainer import VaswaniTrainer, refuse_what_cannot_train

vaswani_plugin.register()


@pytest.mark.parametrize("name", ["fairseq_cli.train", "__main__"])
def test_commands_use_it_also_if_they_were_imported_before(monkeypatch, name):
    from fairseq_cli import train

    assert train.Trainer is fairseq.trainer.Trainer is VaswaniTrainer
    command = types.SimpleNamespace(Trainer=VaswaniTrainer.__base__)
    other = types.SimpleNamespace(Trainer=str)
    monkeypatch.setitem(sys.modules, name, command)
    trainer.install()
    assert command.Trainer is VaswaniTrainer
    monkeypatch.setitem(sys.modules, name, other)
    trainer.install()
    assert other.Trainer is str


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"common.fp16": True}, "--fp16 is for GPUs; on a CPU give --amp or --bf16"),
        ({"common.bf16": True, "common.amp": True}, "--bf16 and --amp: .*; leave out one of them"),
        ({"checkpoint.best_checkpoint_metric": "bleu"}, "metric bleu needs --eval-bleu"),
        ({"common.bf16": True}, None),
        ({"checkpoint.best_checkpoint_metric": "bleu", "task.eval_bleu": True}, None),
    ],
)
def test_what_cannot_train_is_refused(changes, message):
    cfg = training_config("--arch", "vaswani_debug", "--cpu").copy()
    with open_dict(cfg):
        for key, value in changes.items():
            group, _, name = key.partition(".")
            cfg[group][name] = value
    if message is None:
        refuse_what_cannot_train(cfg)
        return
    with pytest.raises(UserError, match=message):
        refuse_what_cannot_train(cfg)


@pytest.mark.parametrize(
    ("flags", "is_said"),
    [(("--lr", "0.1"), True), ((), False), (("--lr", "0.1", "--lr-scheduler", "fixed"), False)],
)
def test_a_rate_without_effect_is_named(caplog, flags, is_said):
    with caplog.at_level(logging.WARNING):
        refuse_what_cannot_train(training_config("--arch", "vaswani_debug", *flags))
    assert ("--lr 0.1 has no effect" in caplog.text) == is_said
