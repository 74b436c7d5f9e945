"""Saves that fail, and what a start resumes from: damaged, missing and replaced checkpoints."""

import os
import re
import resource
import shutil
import signal

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from tests.support.forks import assert_same_weights, updates_in
from vaswani_plugin.fairseq_plugin.save_folder import choose
from vaswani_plugin.inference.checkpoints import DIGESTS, LANGUAGES


def copy_of(undisturbed, folder, but=()):
    """An earlier state of `undisturbed`, at update 12, with all that was beside it."""
    shutil.copytree(undisturbed, folder, ignore=lambda _, names: {"log", *but} & set(names))
    os.replace(folder / "checkpoint_2_12.pt", folder / "checkpoint_last.pt")
    for name in ("checkpoint2.pt", "checkpoint_best.pt"):
        (folder / name).unlink()
    return folder


def damage(path):
    """Flip a bit of each byte of a kilobyte: more than the gaps between tensors."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 1024] = bytes(byte ^ 1 for byte in content[middle : middle + 1024])
    path.write_bytes(content)


def test_a_damaged_last_checkpoint_is_replaced_by_the_one_before(undisturbed, start, tmp_path):
    folder = copy_of(undisturbed, tmp_path / "run")
    damage(folder / "checkpoint_last.pt")
    leftover = folder / "checkpoint_2_14.pt.tmp"  # of a save that was cut off
    leftover.touch()
    run = start(folder)
    assert run.wait() == 0, run.output()
    log = run.output()
    assert not leftover.exists()
    assert f"{folder}/checkpoint_last.pt is not as it was saved (" in log
    assert f"resuming from {folder}/checkpoint_2_8.pt, update 8" in log
    assert_same_weights(folder / "checkpoint_last.pt", undisturbed / "checkpoint_last.pt")


def test_without_a_good_checkpoint_nothing_begins(undisturbed, start, tmp_path):
    folder = copy_of(undisturbed, tmp_path / "run")
    for path in folder.glob("*.pt"):
        path.write_bytes(path.read_bytes()[:-1000])
    before = {path: path.read_bytes() for path in folder.glob("*.pt")}
    run = start(folder)
    assert run.wait() == 1
    error = run.output().splitlines()[-1]
    named = f"error: checkpoint {folder}/checkpoint_last.pt cannot be read: it is truncated; "
    assert error.startswith(named)
    assert {path: path.read_bytes() for path in folder.glob("*.pt")} == before


def test_a_named_file_is_used_or_refused(undisturbed, start, tmp_path):
    folder = copy_of(undisturbed, tmp_path / "run")
    shutil.copy(folder / "checkpoint_last.pt", tmp_path / "named.pt")
    damage(tmp_path / "named.pt")
    run = start(folder, "--restore-file", tmp_path / "named.pt")
    assert run.wait() == 1
    assert f"error: checkpoint {tmp_path}/named.pt cannot be read: it is not" in run.output()


def killed_in_save(number):
    """A fault: the first file of a save gets its name; checkpoint_last.pt is not written."""

    def fault():
        rename, saves = PathManager.rename, []

        def rename_and_die(source, destination):
            rename(source, destination)
            saves.append(destination)
            if len(saves) == number:
                os.kill(os.getpid(), signal.SIGKILL)

        PathManager.rename = rename_and_die

    return fault


@pytest.mark.parametrize(
    ("number", "last", "resumed"),
    [
        (1, None, "resuming from {}/checkpoint_1_4.pt, update 4"),
        (2, 4, "Loaded checkpoint {}/checkpoint_last.pt (epoch 1 @ 4 updates)"),
    ],
)
def test_a_broken_off_save_harms_nothing(undisturbed, start, tmp_path, number, last, resumed):
    folder = tmp_path / "run"
    assert start(folder, fault=killed_in_save(number)).wait() == -signal.SIGKILL
    found = folder / "checkpoint_last.pt"
    assert (updates_in(found) if found.exists() else None) == last
    run = start(folder)
    assert run.wait() == 0, run.output()
    assert resumed.format(folder) in run.output()
    assert_same_weights(folder / "checkpoint_last.pt", undisturbed / "checkpoint_last.pt")


def test_what_the_user_put_there_is_used(undisturbed, start, tmp_path):
    """Newer files of more updates lie in the folder, and the training was complete."""
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    os.replace(folder / "checkpoint1.pt", folder / "checkpoint_last.pt")
    run = start(folder)
    assert run.wait() == 0, run.output()
    assert f"Loaded checkpoint {folder}/checkpoint_last.pt (epoch 2 @ 7 updates)" in run.output()
    assert "the training was complete" not in run.output()
    assert_same_weights(folder / "checkpoint_last.pt", undisturbed / "checkpoint_last.pt")


def test_without_an_optimizers_state_the_rate_goes_on(undisturbed, start, tmp_path):
    folder = copy_of(undisturbed, tmp_path / "run")
    last = folder / "checkpoint_last.pt"
    torch.save(torch.load(last) | {"last_optimizer_state": None}, last)
    run = start(folder, "--max-update", 13)
    assert run.wait() == 0, run.output()
    assert "Adam begins anew, the rate goes on at update 12" in run.output()
    assert updates_in(last) == 13
    adam = torch.load(last)["last_optimizer_state"]["state"]
    assert {int(moments["step"]) for moments in adam.values()} == {1}  # of 13
    assert "num_updates 13 | lr 0.0276699 |" in run.output()  # 14 x 20^-1.5 x 32^-0.5


@pytest.mark.parametrize(
    ("flags", "state", "said"),
    [
        (("--lr-scheduler", "inverse_sqrt", "--lr", 0.01), {}, " vaswani, not inverse_sqrt"),
        (("-s", "src", "-t", "tgt"), {LANGUAGES: ["tgt", "src"]}, "training of src-tgt: give"),
        ((), {DIGESTS: {"source": "0"}}, "error: the source dictionary of "),
        (("--reset-optimizer",), {DIGESTS: {"source": "0"}}, "error: the source dictionary of "),
    ],
)
def test_another_kind_of_training_is_refused(undisturbed, start, tmp_path, flags, state, said):
    last = copy_of(undisturbed, tmp_path / "run") / "checkpoint_last.pt"
    torch.save(torch.load(last) | {"task_state": state}, last)
    run = start(last.parent, *flags)
    assert run.wait() == 1 and said in run.output()


@pytest.mark.parametrize("flags", [(), ("--reset-optimizer", "--reset-dataloader")])
def test_a_named_start_overwrites_nothing_newer(undisturbed, start, tmp_path, flags):
    """The same command again, which begins with update 7 or, reset, with 0."""
    folder = tmp_path / "run"
    flags = ("--restore-file", undisturbed / "checkpoint1.pt", *flags)
    run = start(folder, *flags, "--max-update", 8)
    assert run.wait() == 0, run.output()
    run = start(folder, *flags)
    assert run.wait() == 1 and "checkpoint_last.pt, update 8; to go on" in run.output()
    assert updates_in(folder / "checkpoint_last.pt") == 8
    assert start(folder, *flags, "--no-save", "--max-update", 1).wait() == 0
    assert start(folder, "--max-update", 9).wait() == 0
    assert updates_in(folder / "checkpoint_last.pt") == 9


def test_a_first_start_begins_with_the_named_file(undisturbed, start, tmp_path):
    """Also in a folder whose only checkpoint can't be resumed from."""
    folder = tmp_path / "run"
    folder.mkdir()
    state = torch.load(undisturbed / "checkpoint_best.pt")
    torch.save(state | {"last_optimizer_state": None}, folder / "checkpoint_best.pt")
    model = undisturbed / "checkpoint1.pt"
    run = start(folder, "--max-update", 1, "--finetune-from-model", model, "-s", "tgt", "-t", "src")
    assert run.wait() == 0, run.output()
    assert f"loading pretrained model from {model}" in run.output()


def save(path, updates, **changes):
    """What a start looks at, in a file as old as the others."""
    state = {
        "extra_state": {"train_iterator": {"epoch": 1}},
        "last_optimizer_state": {"state": torch.zeros(300)},
        "optimizer_history": [{"num_updates": updates}],
    }
    torch.save(state | changes, path)
    os.utime(path, (1, 1))


@pytest.fixture
def folder(tmp_path):
    for number, name in enumerate(["checkpoint1", "checkpoint_2_8", "checkpoint_last"]):
        save(tmp_path / f"{name}.pt", 4 + 4 * number)
    return tmp_path


def chosen(folder):
    return choose(folder / "checkpoint_last.pt").name


def test_the_last_one_is_the_choice_then_the_good_one_of_the_most_updates(folder):
    save(folder / "checkpoint_best.pt", 13)
    save(folder / "checkpoint_2_20.pt", 20, last_optimizer_state={})  # nobody can go on from it
    for name in ("checkpoint_last", "checkpoint_best", "checkpoint_2_8", "checkpoint1"):
        assert chosen(folder) == f"{name}.pt"
        damage(folder / f"{name}.pt")
    save(folder / "checkpoint_last.pt", 3)
    assert chosen(folder) == "checkpoint_last.pt"
    (folder / "checkpoint_last.pt").unlink()
    save(folder / "checkpoint3.pt", 2, extra_state={})
    save(folder / "checkpoint4.pt", 1)
    assert chosen(folder) == "checkpoint4.pt"


def test_a_complete_training_gets_no_further_update(undisturbed, start, tmp_path):
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    run = start(folder)
    assert run.wait() == 0, run.output()
    assert "the training was complete: 14 of 14 updates" in run.output()
    assert updates_in(folder / "checkpoint_last.pt") == 14


@pytest.mark.parametrize("flag", ["--restore-file", "--finetune-from-model", "--continue-once"])
def test_a_file_that_does_not_exist_is_no_start(undisturbed, start, tmp_path, flag):
    """fairseq would begin with random weights."""
    run = start(tmp_path / "run", flag, "checkpoints/checkpoint_bets.pt")
    assert run.wait() == 1
    line = run.output().splitlines()[-1]
    assert re.match("error: .*checkpoints/checkpoint_bets.pt.*(no such file|not exist)", line)
    if flag != "--restore-file":  # flags of the first start: not read where a training goes on
        assert start(copy_of(undisturbed, tmp_path / "begun"), flag, "none.pt").wait() == 0
    else:  # also where fairseq would look without the flag
        assert start(tmp_path / "run", flag, tmp_path / "run" / "checkpoint_last.pt").wait() == 1


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

    return fault


def test_a_full_disk_ends_the_training_and_harms_nothing(start, undisturbed, tmp_path):
    folder = tmp_path / "run"
    full = start(folder, fault=full_at(2, 100_000))
    assert full.wait() == 1
    error = full.output().splitlines()[-1]
    assert error.startswith(f"error: the checkpoint of update 7 can't be saved to {folder} (")
    assert "Traceback" not in full.output()
    names = sorted(path.name for path in folder.glob("check*"))
    names.remove("checkpoint1.pt.tmp")  # the next start removes it
    assert names == ["checkpoint_1_4.pt", "checkpoint_best.pt", "checkpoint_last.pt"]
    assert updates_in(folder / "checkpoint_last.pt") == 4
    on = start(folder)
    assert on.wait() == 0, on.output()
    assert_same_weights(folder / "checkpoint_last.pt", undisturbed / "checkpoint_last.pt")
