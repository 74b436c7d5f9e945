"""fairseq's commands train with our trainer, and its settings may be missing."""

import sys
import types

import fairseq.trainer
import pytest
import torch
from fairseq.distributed import utils as distributed_utils
from omegaconf import OmegaConf

import vaswani_plugin
from tests.conftest import PLUGIN
from vaswani_plugin.fairseq_plugin import training
from vaswani_plugin.fairseq_plugin.training.trainer import VaswaniTrainer

vaswani_plugin.register()


def test_fairseqs_train_command_uses_it():
    from fairseq_cli import train

    assert train.Trainer is fairseq.trainer.Trainer is VaswaniTrainer


@pytest.mark.parametrize("name", ["fairseq_cli.train", "__main__"])
def test_a_command_that_was_imported_before_uses_it(monkeypatch, name):
    command = types.SimpleNamespace(Trainer=VaswaniTrainer.__base__)
    other = types.SimpleNamespace(Trainer=str)
    monkeypatch.setitem(sys.modules, name, command)
    training.install()
    assert command.Trainer is VaswaniTrainer
    monkeypatch.setitem(sys.modules, name, other)
    training.install()
    assert other.Trainer is str


def test_run_as_a_module_with_a_stock_model(stock_run):
    run, folder = stock_run
    assert run.returncode == 0
    assert (folder / ".progress.json").exists()


def test_fairseqs_class_itself_is_unchanged():
    for name, method in vars(VaswaniTrainer.__base__).items():
        code = getattr(method, "__code__", None)
        assert code is None or str(PLUGIN / "training") not in code.co_filename, name


def bare_configuration(**checkpoint):
    """As fairseq's own tests make them: nothing that fairseq's trainer doesn't read itself."""
    return OmegaConf.create(
        {
            "common": {"tpu": False, "cpu": True, "fp16": False, "bf16": False, "amp": False},
            "distributed_training": {
                "ddp_backend": "legacy_ddp",
                "distributed_world_size": 1,
                "pipeline_model_parallel": False,
            },
            "optimization": {"use_bmuf": False},
            "checkpoint": checkpoint,
            "model": {},
        }
    )


@pytest.mark.parametrize("checkpoint", [{}, {"save_dir": None}])
def test_services_without_settings_are_off(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cfg = bare_configuration(**checkpoint)
    trainer = VaswaniTrainer(cfg, None, torch.nn.Linear(2, 2), torch.nn.Identity())
    assert trainer.load_checkpoint(str(tmp_path / "none.pt")) is None
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_of_other_trainers_are_left_to_fairseq(monkeypatch):
    """fairseq's own tests load and save with a mock in the trainer's place."""
    from unittest.mock import MagicMock

    from fairseq import checkpoint_utils

    trainer = MagicMock()
    trainer.checkpoint_suffix = ""
    trainer.load_checkpoint.return_value = None
    cfg = OmegaConf.create(
        {
            **{"restore_file": "checkpoint_last.pt", "save_dir": "nowhere"},
            **{f"reset_{name}": False for name in ("optimizer", "meters", "dataloader")},
            **{"reset_lr_scheduler": False, "optimizer_overrides": "{}"},
            "finetune_from_model": None,
        }
    )
    checkpoint_utils.load_checkpoint(cfg, trainer)
    assert trainer.load_checkpoint.call_args.args[0].endswith("nowhere/checkpoint_last.pt")


def test_workers_vote_only_where_there_are_several(monkeypatch):
    from vaswani_plugin.fairseq_plugin.training.preemption import any_worker

    monkeypatch.setattr(distributed_utils, "all_reduce", None)
    alone = types.SimpleNamespace(data_parallel_world_size=1)
    assert any_worker(alone, True) and not any_worker(alone, False)
