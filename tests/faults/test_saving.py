"""Saves that fail: a full disk, and one that works again."""

import resource

import torch
from fairseq import checkpoint_utils

from tests.support.forks import assert_same_weights, updates_in
from vaswani_plugin.fairseq_plugin.patches import checkpoints


def full_at(save, room):
    """A fault: in the `save`-th save the file may not grow beyond `room` bytes."""

    def fault():
        original, calls = checkpoint_utils.torch_persistent_save, []

        def torch_persistent_save(*args, **kwargs):
            calls.append(args)
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            if len(calls) == save:
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
            try:
                original(*args, **kwargs)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)  # the log is a file as well

        checkpoint_utils.torch_persistent_save = torch_persistent_save
        checkpoints.SAVE_PAUSE = 0.01

    return fault


def test_a_full_disk_ends_the_training_and_harms_nothing(start, undisturbed, tmp_path):
    folder = tmp_path / "run"
    full = start(folder, fault=full_at(2, 100_000))
    assert full.wait() == 1
    error = full.output().splitlines()[-1]
    assert error.startswith(f"error: the checkpoint of update 7 can't be saved to {folder} (")
    assert "Traceback" not in full.output()
    names = sorted(path.name for path in folder.glob("check*"))
    assert names == ["checkpoint_1_4.pt", "checkpoint_best.pt", "checkpoint_last.pt"]
    assert updates_in(folder / "checkpoint_last.pt") == 4
    on = start(folder)
    assert on.wait() == 0, on.output()
    assert_same_weights(folder / "checkpoint_last.pt", undisturbed / "checkpoint_last.pt")


def test_a_save_that_works_at_the_second_try_is_whole(tmp_path, monkeypatch):
    save, tries = torch.save, []

    def fail_once(state, file):
        tries.append(file)
        if len(tries) == 1:
            file.write(b"half a checkpoint")
            raise OSError("the disk was away for a second")
        save(state, file)

    monkeypatch.setattr(checkpoints, "SAVE_PAUSE", 0)
    monkeypatch.setattr(torch, "save", fail_once)
    checkpoint_utils.torch_persistent_save({"a": 1}, str(tmp_path / "saved.pt"))
    assert len(tries) == 2
    assert torch.load(tmp_path / "saved.pt") == {"a": 1}
    assert (tmp_path / "saved.pt").read_bytes().startswith(b"PK")
