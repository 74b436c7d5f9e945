"""Several workers end together: one that dies takes the others along, in bounded time."""

import os
import signal

import pytest
import torch
from fairseq.distributed import utils as distributed_utils
from fairseq_flags import training_config
from torch.multiprocessing import ProcessExitedException

from tests.faults.conftest import TWO_EPOCHS
from tests.faults.test_lock import killed_at
from tests.support.forks import DEBUG, as_worker, debug_config, start_training, updates_in
from vaswani_plugin.errors import EXIT_CODE_WHEN_PREEMPTED as EXIT_CODE
from vaswani_plugin.errors import UserError


@pytest.mark.parametrize("victim", [0, 1])
def test_the_other_worker_does_not_wait_for_ever(toy_data_bin, tmp_path, victim):
    cfg = debug_config(toy_data_bin, tmp_path / "run", *TWO_EPOCHS)
    runs = [
        start_training(
            as_worker(cfg, rank, 2, tmp_path / "meeting"),
            killed_at(5) if rank == victim else None,
        )
        for rank in range(2)
    ]
    codes = [run.wait(300) for run in runs]
    assert codes[victim] == -signal.SIGKILL
    assert codes[1 - victim] == 1, runs[1 - victim].output()
    assert updates_in(tmp_path / "run" / "checkpoint_last.pt") == 4


@pytest.mark.parametrize(
    ("ended", "error", "said"),
    [
        ((EXIT_CODE,), SystemExit, str(EXIT_CODE)),
        ((-signal.SIGTERM, "SIGTERM"), SystemExit, str(EXIT_CODE)),  # asked before they began
        ((-signal.SIGUSR1, "SIGUSR1"), SystemExit, str(EXIT_CODE)),
        ((-9, "SIGKILL"), UserError, "worker 1 was ended by SIGKILL"),
        ((3,), ProcessExitedException, "x"),
    ],
)
def test_the_end_of_a_worker(monkeypatch, ended, error, said):
    def spawn(*args, **kwargs):
        raise ProcessExitedException("x", 1, 99, *ended)

    monkeypatch.setattr(torch.multiprocessing, "spawn", spawn)
    cfg = training_config(*TWO_EPOCHS, *DEBUG, "--distributed-world-size", "2").copy()
    with pytest.raises(error, match=said):
        distributed_utils.call_main(cfg, lambda cfg: None)


@pytest.mark.slow
def test_the_starter_hands_the_signal_on(toy_data_bin, tmp_path):
    """fairseq starts the workers itself; the scheduler knows only the process that it started."""
    flags = (*TWO_EPOCHS, "--max-update", 400, "--distributed-world-size", 2)
    run = start_training(debug_config(toy_data_bin, tmp_path / "run", *flags))
    run.wait_for("num_updates=6", timeout=300)
    os.kill(run.pid, signal.SIGTERM)
    assert run.wait() == EXIT_CODE, run.output()
    assert updates_in(tmp_path / "run" / "checkpoint_last.pt") >= 6
