"""Checkpoints: what loads, what is refused and with which words, and saves that survive a kill."""

import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils, utils
from fairseq.file_io import PathManager
from fairseq_flags import training_config

import vaswani_plugin
from tests.support.scripts import Runs
from vaswani_plugin.errors import UserError

vaswani_plugin.register()


def load(path: Path) -> dict:
    return checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path, stock_checkpoint):
    state = torch.load(stock_checkpoint)
    state["extra_state"]["more"] = Runs(tmp_path / "marker")
    torch.save(state, tmp_path / "evil.pt")
    with pytest.raises(UserError) as refusal:
        load(tmp_path / "evil.pt")
    assert not (tmp_path / "marker").exists()
    assert str(refusal.value).startswith(f"checkpoint {tmp_path}/evil.pt is refused: ")
    assert f"call {os.mkdir.__module__}.mkdir, " in str(refusal.value)
    torch.load(tmp_path / "evil.pt", weights_only=False)
    assert (tmp_path / "marker").exists(), "the file was harmless: this test would show nothing"


def test_what_is_no_checkpoint_is_named(tmp_path, stock_checkpoint):
    whole = stock_checkpoint.read_bytes()
    for kept in (0.0, 0.001, 0.5, 0.999):
        (tmp_path / "half.pt").write_bytes(whole[: int(len(whole) * kept)])
        with pytest.raises(UserError, match=r"half\.pt (cannot be read|is no ch).*; \w+"):
            load(tmp_path / "half.pt")
    for content in ([1, 2], {"model": {}}):
        torch.save(content, tmp_path / "foreign.pt")
        with pytest.raises(UserError, match="foreign.pt is truncated, or no checkpoint"):
            load(tmp_path / "foreign.pt")


def test_a_failing_copy_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    new, last = tmp_path / "new.pt", tmp_path / "checkpoint_last.pt"
    new.write_bytes(b"new" * 100)
    last.write_bytes(b"old")

    def half_way(source, destination):
        Path(destination).write_bytes(Path(source).read_bytes()[:150])
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", half_way)
        with pytest.raises(OSError, match="No space"):
            PathManager.copy(str(new), str(last), overwrite=True)
    assert last.read_bytes() == b"old"
    assert PathManager.copy(str(new), str(last), overwrite=True)
    assert last.read_bytes() == new.read_bytes()


def test_a_shared_weight_is_saved_once(tmp_path):
    """Its name in half precision is a copy in float32, as on a GPU it is a copy on the CPU."""
    weight, other = torch.randn(500, 40).bfloat16(), torch.zeros(())
    state = {"model": {"a": weight, "b": weight, "view": weight[:250]}, "count": [other, 3]}
    moved = utils.move_to_cpu(state)
    assert moved["model"]["a"] is moved["model"]["b"] and moved["count"] == [other, 3]
    for name, tensor in state["model"].items():
        assert torch.equal(moved["model"][name], tensor.float())
    torch.save(moved, tmp_path / "file.pt")
    assert (tmp_path / "file.pt").stat().st_size < 1.2 * (500 + 250) * 40 * 4


@pytest.fixture
def save(tmp_path, monkeypatch):
    """A function that saves at the end of an epoch as fairseq-train does; files are empty."""
    original = checkpoint_utils.save_checkpoint.__wrapped__
    for function in (checkpoint_utils.save_checkpoint, original):  # fairseq keeps the best there
        monkeypatch.setattr(function, "best", None, raising=False)
        monkeypatch.delattr(function, "best")

    def save(epoch: int, updates: int, loss: float | None, *flags: str, maximize=False) -> set[str]:
        cfg = training_config("--arch", "vaswani_debug", *flags).checkpoint.copy()
        cfg.save_dir, cfg.maximize_best_checkpoint_metric = str(tmp_path), maximize
        trainer = SimpleNamespace(
            data_parallel_rank=0,
            checkpoint_suffix="",
            should_save_checkpoint_on_current_rank=True,
            consolidate_optimizer=lambda: None,
            get_num_updates=lambda: updates,
            save_checkpoint=lambda path, state: Path(path).write_text("") or path,
            task=None,
        )
        epochs = SimpleNamespace(epoch=epoch, end_of_epoch=lambda: True, state_dict=dict)
        checkpoint_utils.save_checkpoint(cfg, trainer, epochs, loss)
        return {path.name for path in tmp_path.glob("*.pt")}

    return save


@pytest.mark.parametrize(("losses", "maximize"), [([1, 2, 3, 4], False), ([2, 4, 1, 3, 5], True)])
def test_as_many_best_checkpoints_as_asked(save, losses, maximize):
    """The first losses are the best ones, as in fine-tuning, or not."""
    for epoch, loss in enumerate(losses, start=1):
        loss = 9 - loss if maximize else loss
        names = save(epoch, epoch, loss, "--keep-best-checkpoints", "3", maximize=maximize)
    found = (re.fullmatch(r"checkpoint\.best_loss_(\d)\.\d+\.pt", name) for name in names)
    values = [int(match[1]) for match in found if match]
    assert sorted(9 - value if maximize else value for value in values) == [1, 2, 3]


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        (("--no-epoch-checkpoints",), {"_2_14", "_3_21"}),
        (("--save-interval", "2"), {"_2_14", "_3_21", "2"}),
        (("--keep-last-epochs", "1"), {"_2_14", "_3_21", "3"}),
        (("--keep-interval-updates-pattern", "7"), {"_1_7", "_2_14", "_3_21", "1", "2", "3"}),
    ],
)
def test_an_interval_that_ends_with_an_epoch_is_saved(save, flags, kept):
    intervals = ("--save-interval-updates", "7", "--keep-interval-updates", "2")
    for epoch in (1, 2, 3):
        names = save(epoch, 7 * epoch, None, *intervals, *flags)
    assert names == {f"checkpoint{name}.pt" for name in {*kept, "_last"}}
