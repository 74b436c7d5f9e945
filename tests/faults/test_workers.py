"""Several workers end together: one that dies takes the others along, in bounded time."""

import os
import signal

import pytest
import torch
from fairseq.distributed import utils as distributed_utils
from fairseq_flags import training_config
from torch.multiprocessing import ProcessExitedException

from tests.faults.conftest import TWO_EPOCHS
from tests.faults.forks import DEBUG, as_worker, debug_config, start_training, updates_in
from vaswani_plugin.errors import EXIT_CODE_WHEN_PREEMPTED as EXIT_CODE
from vaswani_plugin.fairseq_plugin.patches import distribution
from vaswani_plugin.fairseq_plugin.training.trainer import VaswaniTrainer


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


@pytest.mark.parametrize("victim", [0, 1])
def test_the_other_worker_does_not_wait_for_ever(data_bin, tmp_path, victim):
    cfg = debug_config(data_bin, tmp_path / "run", *TWO_EPOCHS)
    runs = [
        start_training(
            as_worker(cfg, rank, 2, tmp_path / "meeting"),
            tmp_path / f"{rank}.log",
            killed_at(5) if rank == victim else None,
        )
        for rank in range(2)
    ]
    codes = [run.wait(300) for run in runs]
    assert codes[victim] == -signal.SIGKILL
    assert codes[1 - victim] == 1, runs[1 - victim].output()
    assert updates_in(tmp_path / "run" / "checkpoint_last.pt") == 4


def end_with(code, name=None):
    """What comes of the end of a worker."""
    with distribution.worker_exits_reported():
        raise ProcessExitedException("x", 1, 99, code, name)


def test_a_worker_that_left_as_asked():
    with pytest.raises(SystemExit) as end:
        end_with(EXIT_CODE)
    assert end.value.code == EXIT_CODE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_workers_that_were_asked_before_they_began(number):
    with pytest.raises(SystemExit) as end:
        end_with(-number, number.name)
    assert end.value.code == EXIT_CODE


def test_a_worker_that_was_killed_is_named():
    with pytest.raises(distribution.WorkerLost, match="worker 1 was ended by SIGKILL"):
        end_with(-9, "SIGKILL")


def test_another_end_stays_what_it_is():
    with pytest.raises(ProcessExitedException):
        end_with(3)


def test_every_command_reports_the_end_of_a_worker(monkeypatch):
    def spawn(*args, **kwargs):
        raise ProcessExitedException("x", 1, 99, -9, "SIGKILL")

    monkeypatch.setattr(torch.multiprocessing, "spawn", spawn)
    cfg = training_config(*TWO_EPOCHS, *DEBUG, "--distributed-world-size", "2").copy()
    with pytest.raises(distribution.WorkerLost):
        distributed_utils.call_main(cfg, lambda cfg: None)


@pytest.mark.slow
def test_the_starter_hands_the_signal_on(data_bin, tmp_path):
    """fairseq starts the workers itself; the scheduler knows only the process that it started."""
    flags = (*TWO_EPOCHS, "--max-update", 400, "--distributed-world-size", 2)
    run = start_training(debug_config(data_bin, tmp_path / "run", *flags), tmp_path / "log")
    run.wait_for("num_updates=6", timeout=300)
    os.kill(run.pid, signal.SIGTERM)
    assert run.wait() == EXIT_CODE, run.output()
    assert updates_in(tmp_path / "run" / "checkpoint_last.pt") >= 6
