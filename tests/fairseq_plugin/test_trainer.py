"""fairseq's commands train with our trainer, whose log says what it has of the paper's values."""

import sys
import types

import pytest
from fairseq_flags import training_config

import vaswani_plugin
from tests.conftest import ancestors
from vaswani_plugin.fairseq_plugin import trainer
from vaswani_plugin.fairseq_plugin.defaults import report
from vaswani_plugin.fairseq_plugin.patches.distribution import TORCHRUN_VARIABLES
from vaswani_plugin.fairseq_plugin.trainer import VaswaniTrainer

vaswani_plugin.register()


@pytest.mark.parametrize("name", ["fairseq_cli.train", "__main__"])
def test_a_command_that_was_imported_before_uses_it(monkeypatch, name):
    command = types.SimpleNamespace(Trainer=VaswaniTrainer.__base__)
    monkeypatch.setitem(sys.modules, name, command)
    trainer.install()
    assert command.Trainer is VaswaniTrainer


def test_every_worker_takes_the_choice_of_the_first(monkeypatch, tmp_path):
    """They may see other files, or a disk's error; each resuming by itself, they would deadlock."""
    second = types.SimpleNamespace(
        is_data_parallel_master=False,
        data_parallel_world_size=2,
        data_parallel_process_group=None,
        device=None,
        checkpoint_suffix="",
    )
    received = {None: "checkpoint1.pt"}
    monkeypatch.setattr(trainer.distributed_utils, "broadcast_object", lambda x, *_: received[x])
    last = tmp_path / "checkpoint_last.pt"
    last.touch()
    assert VaswaniTrainer._choose(second, last) == tmp_path / "checkpoint1.pt"


def test_torchruns_workers_train_together_or_not(monkeypatch):
    """Hydra has read the configuration, and has not loaded the plugin before fairseq asks."""
    for name in TORCHRUN_VARIABLES:
        monkeypatch.setenv(name, "2")
    with pytest.raises(SystemExit, match="error: each of torchrun's workers would train alone"):
        VaswaniTrainer(training_config("--arch", "vaswani_debug"))


@ancestors
def test_the_report_of_a_training():
    flags = ("--arch", "vaswani_base", "--max-tokens", "4000", "--adam-eps", "1e-8")
    flags += ("--distributed-world-size", "2", "--update-freq", "3")
    line = report(training_config(*flags))
    assert line.startswith("paper defaults in force: optimizer=vaswani_adam, ")
    assert "max-tokens 4000 x 2 device(s) x update-freq 3 = 24000 padded tokens at most, " in line
    assert line.endswith("changed: optimizer.adam_eps=1e-08")
    assert "--lr has no effect" in report(training_config(*flags, "--lr", "0.1"))
    flags = ("--arch", "vaswani_seq2seq_lstm_tiny", "--batch-size", "8")
    line = report(training_config(*flags))
    assert "criterion.label_smoothing=0.0, optimization.clip_norm=5.0" in line
    assert "an update:" not in line
