"""Several workers end together: one that dies takes the others along, in bounded time."""

import os
import signal

import pytest
from fairseq.trainer import Trainer
from torch.multiprocessing import ProcessExitedException

from tests.faults.conftest import TWO_EPOCHS
from tests.faults.forks import as_worker, debug_config, start_training, updates_in
from vaswani_plugin.resilience import preemption, workers


def killed_at(update):
    """A fault: SIGKILL within an update."""

    def fault():
        clip = Trainer.clip_grad_norm

        def clip_grad_norm(self, clip_norm):
            if self.get_num_updates() == update:
                os.kill(os.getpid(), signal.SIGKILL)
            return clip(self, clip_norm)

        Trainer.clip_grad_norm = clip_grad_norm

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


@pytest.fixture
def call_main(monkeypatch):
    """The service around a `call_main` that ends as its worker does; returns that."""

    class Owner:
        @staticmethod
        def call_main(error):
            raise error

    monkeypatch.setattr(workers, "distributed_utils", Owner)
    monkeypatch.setattr(preemption, "_request", preemption.Request())
    workers.end_workers_together()
    return Owner.call_main


def ended(code, name=None):
    return ProcessExitedException("x", 1, 99, code, name)


def test_a_worker_that_left_as_asked(call_main):
    with pytest.raises(SystemExit) as end:
        call_main(ended(preemption.EXIT_CODE))
    assert end.value.code == preemption.EXIT_CODE


def test_workers_that_were_asked_before_they_began(call_main):
    preemption._request.asked = True
    with pytest.raises(SystemExit) as end:
        call_main(ended(-15, "SIGTERM"))
    assert end.value.code == preemption.EXIT_CODE


def test_a_worker_that_was_killed_is_named(call_main):
    with pytest.raises(workers.WorkerLost, match="worker 1 was ended by SIGKILL"):
        call_main(ended(-9, "SIGKILL"))


def test_another_end_stays_what_it_is(call_main):
    with pytest.raises(ProcessExitedException):
        call_main(ended(3))


@pytest.mark.slow
def test_the_starter_hands_the_signal_on(data_bin, tmp_path):
    """fairseq starts the workers itself; the scheduler knows only the process that it started."""
    flags = (*TWO_EPOCHS, "--max-update", 400, "--distributed-world-size", 2)
    run = start_training(debug_config(data_bin, tmp_path / "run", *flags), tmp_path / "log")
    run.wait_for("num_updates=6", timeout=300)
    os.kill(run.pid, signal.SIGTERM)
    assert run.wait() == preemption.EXIT_CODE, run.output()
    assert updates_in(tmp_path / "run" / "checkpoint_last.pt") >= 6
