"""fairseq's commands train with our trainer; what it can't do is said before it begins."""

import logging
import sys
import types

import fairseq.trainer
import pytest
from fairseq_flags import training_config

import vaswani_plugin
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
    ("flags", "is_said"),
    [(("--lr", "0.1"), True), ((), False), (("--lr", "0.1", "--lr-scheduler", "fixed"), False)],
)
def test_a_rate_without_effect_is_named(caplog, flags, is_said):
    with caplog.at_level(logging.WARNING):
        refuse_what_cannot_train(training_config("--arch", "vaswani_debug", *flags))
    assert ("--lr 0.1 has no effect" in caplog.text) == is_said
