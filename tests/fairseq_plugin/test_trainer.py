"""fairseq's commands train with our trainer, whose log says what it has of the paper's values."""

import sys
import types
from unittest import mock

import pytest
import torch
from fairseq_flags import training_config
from model_factory import make_model
from torch.utils._python_dispatch import TorchDispatchMode

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
    values = {"is_data_parallel_master": False, "data_parallel_world_size": 2}
    values |= {"data_parallel_process_group": None, "device": None, "checkpoint_suffix": ""}
    second = types.SimpleNamespace(**values)
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


@pytest.mark.parametrize(("is_ours", "name"), [(True, "vaswani_transformer"), (False, "vaswani_x")])
def test_an_unknown_row_is_saved_under_its_models_name_if_that_is_ours(is_ours, name):
    model = make_model()
    model.__class__ = type(model) if is_ours else type("Mine", (type(model),), {})
    cfg = training_config("--arch", "vaswani_debug", "--cpu").copy()
    cfg.model._name = "vaswani_x"
    assert VaswaniTrainer(cfg, None, model, torch.nn.Module()).cfg.model._name == name


def test_amp_on_a_cpu_casts_a_weight_once_an_update(monkeypatch):
    weight, casts = torch.nn.Parameter(torch.randn(3, 4)), []

    class Counted(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function is torch.ops.aten._to_copy.default and kwargs["dtype"] == torch.bfloat16:
                casts.append(args[0].shape)
            return function(*args, **(kwargs or {}))

    def step(self, batches, raise_oom):
        for batch in batches:
            with torch.autocast("cpu", torch.bfloat16):
                loss = torch.nn.functional.linear(batch, weight).sum()
            loss.backward()

    monkeypatch.setattr(trainer.Trainer, "train_step", step)
    monkeypatch.setattr(VaswaniTrainer, "data_parallel_world_size", 1)
    updated = VaswaniTrainer.__new__(VaswaniTrainer)
    updated.preemption = mock.Mock()
    batches = [torch.randn(2, 4) for _ in range(3)]
    for number in (1, 2):
        with Counted():
            updated.train_step(batches)
        assert casts.count(weight.shape) == number and not torch.is_autocast_enabled("cpu")
    expected = 2 * torch.cat(batches).bfloat16().float().sum(dim=0)
    torch.testing.assert_close(weight.grad, expected.expand(3, 4), atol=0.05, rtol=0)


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
