"""One run at a time in a save folder."""

import os
import signal
import time

import pytest

from tests.support.forks import TrainingFork, updates_in
from vaswani_plugin.fairseq_plugin.training import checkpoints
from vaswani_plugin.fairseq_plugin.training.trainer import VaswaniTrainer


def hold_for_ever(folder):
    checkpoints.hold(folder)
    print("held", flush=True)
    time.sleep(1000)


def killed_at(update):
    """A fault: SIGKILL within an update."""

    def fault():
        clip = VaswaniTrainer.clip_grad_norm

        def clip_grad_norm(self, clip_norm):
            if self.get_num_updates() == update:
                os.kill(os.getpid(), signal.SIGKILL)
            return clip(self, clip_norm)

        VaswaniTrainer.clip_grad_norm = clip_grad_norm

    return fault


@pytest.fixture
def holder(tmp_path):
    fork = TrainingFork(hold_for_ever, tmp_path / "run")
    fork.wait_for("held")
    yield fork
    os.kill(fork.pid, signal.SIGKILL)
    fork.wait()


def test_a_second_run_is_refused(holder, start, tmp_path):
    folder = tmp_path / "run"
    second = start(folder)
    assert second.wait() == 1
    error = second.output().splitlines()[-1]
    assert error.startswith(f"error: --save-dir {folder} is in use by process {holder.pid} on ")
    assert not list(folder.glob("*.pt"))


def test_a_run_that_saves_nothing_needs_no_lock(holder, start, tmp_path):
    run = start(tmp_path / "run", "--no-save", "--max-update", 1)
    assert run.wait() == 0, run.output()


def test_the_lock_goes_with_a_killed_run_and_not_with_its_loaders(start, tmp_path):
    folder = tmp_path / "run"
    assert start(folder, "--num-workers", 2, fault=killed_at(5)).wait() == -signal.SIGKILL
    on = start(folder)  # its data-loader workers look after their parent every five seconds
    assert on.wait() == 0, on.output()
    assert updates_in(folder / "checkpoint_last.pt") == 14
