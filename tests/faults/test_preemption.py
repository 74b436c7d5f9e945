"""How a training ends: asked to leave it saves the update at hand, and the next start goes on."""

import os
import signal
import subprocess
import time
from types import SimpleNamespace

import pytest
import torch
from fairseq.distributed import utils as distributed_utils
from fairseq_flags import training_config
from torch.multiprocessing import ProcessExitedException

from tests.faults.conftest import TWO_EPOCHS
from tests.support import forks
from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin import save_folder
from vaswani_plugin.fairseq_plugin.preemption import EXIT_CODE
from vaswani_plugin.fairseq_plugin.trainer import VaswaniTrainer


def signalled_in(name, times, number=signal.SIGTERM, group=False, owner=VaswaniTrainer):
    """A fault: the process is sent a signal while it calls a method of the trainer."""

    def fault():
        original, calls = getattr(owner, name), []

        def method(self, *args, **kwargs):
            calls.append(name)
            if len(calls) == times:
                if group:  # by another process: a loader's worker obeys its parent
                    subprocess.run(["kill", f"-{int(number)}", "--", f"-{os.getpgid(0)}"])
                else:
                    os.kill(os.getpid(), number)
            return original(self, *args, **kwargs)

        setattr(owner, name, method)

    return fault


KILLED_IN_UPDATE_6 = signalled_in("clip_grad_norm", 6, signal.SIGKILL)


@pytest.mark.parametrize(
    ("method", "times", "how", "saved"),
    [
        # as schedulers and terminals do: data-loader workers get the signal as well
        ("clip_grad_norm", 6, {"group": True}, 6),
        ("clip_grad_norm", 6, {"group": True, "number": signal.SIGINT}, 6),
        ("clip_grad_norm", 5, {"group": True, "number": signal.SIGHUP}, 5),
        # an interval's end: validated and saved anyway
        ("clip_grad_norm", 8, {"number": signal.SIGUSR1}, 8),
        ("valid_step", 2, {}, 4),
    ],
)
def test_the_update_at_hand_is_saved(start, undisturbed, tmp_path, method, times, how, saved):
    folder = tmp_path / "run"
    # Without a buffer the training itself hears of the end of a loader's worker.
    loaders = ("--num-workers", 2, "--data-buffer-size", 0) if "group" in how else ()
    left = start(folder, *loaders, fault=signalled_in(method, times, **how))
    code = 130 if how.get("number") == signal.SIGINT else 75
    assert left.wait() == code, left.output()
    assert f"left as asked after update {saved}, exit code {code}" in left.output()
    assert forks.updates_in(folder / "checkpoint_last.pt") == saved
    on = start(folder)
    assert on.wait() == 0, on.output()
    assert f"@ {saved} updates)" in on.output()
    forks.assert_same_weights(folder / "checkpoint_last.pt", undisturbed / "checkpoint_last.pt")
    if saved == 8:  # the validation that was due is not lost
        log = left.output()
        assert log.index("asked to leave") < log.index("num_updates 8 | best_loss")


def test_a_second_interrupt_ends_at_once(start, tmp_path):
    """The same one may come twice; another one does not wait for the update."""

    def fault():
        original, calls = VaswaniTrainer.clip_grad_norm, []

        def interrupted(self, clip_norm):
            calls.append(1)
            for wait in [0, 0, 1][: len(calls) // 6 * 3]:
                time.sleep(wait)
                os.kill(os.getpid(), signal.SIGINT)
                print("interrupted", flush=True)
            return original(self, clip_norm)

        VaswaniTrainer.clip_grad_norm = interrupted

    run = start(tmp_path / "run", "--num-workers", 1, fault=fault)
    assert run.wait() == 130
    assert run.output().count("interrupted") == 2 and "left as asked" not in run.output()
    assert forks.updates_in(tmp_path / "run" / "checkpoint_last.pt") == 4


def test_a_finished_training_is_finished(start, tmp_path):
    assert start(tmp_path / "run", fault=signalled_in("clip_grad_norm", 14)).wait() == 0
    assert forks.updates_in(tmp_path / "run" / "checkpoint_last.pt") == 14


def test_before_it_begins_there_is_nothing_to_save(start, tmp_path):
    run = start(tmp_path / "run", fault=signalled_in("__init__", 1, owner=VaswaniTrainer.__base__))
    assert run.wait() == EXIT_CODE
    assert not list((tmp_path / "run").glob("*.pt"))


def test_one_worker_is_asked_and_all_leave(start_two, tmp_path):
    runs = start_two(None, signalled_in("clip_grad_norm", 2))
    assert [run.wait() for run in runs] == [EXIT_CODE] * 2, [run.output() for run in runs]
    assert forks.updates_in(tmp_path / "run" / "checkpoint_last.pt") == 2


# One run at a time in a save folder.


def hold_for_ever(folder):
    save_folder.hold(folder)
    print("held", flush=True)
    time.sleep(1000)


@pytest.fixture
def holder(tmp_path):
    fork = forks.TrainingFork(hold_for_ever, tmp_path / "run")
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
    assert start(folder, "--no-save", "--max-update", 1).wait() == 0, "it needs no lock"


def test_the_lock_goes_with_a_killed_run_and_not_with_its_loaders(start, tmp_path):
    folder = tmp_path / "run"
    assert start(folder, "--num-workers", 2, fault=KILLED_IN_UPDATE_6).wait() == -signal.SIGKILL
    on = start(folder)  # its data-loader workers look after their parent every five seconds
    assert on.wait() == 0, on.output()
    assert forks.updates_in(folder / "checkpoint_last.pt") == 14


# Several workers end together, in bounded time.


@pytest.mark.parametrize("victim", [0, 1])
def test_the_other_worker_does_not_wait_for_ever(start_two, tmp_path, victim):
    runs = start_two(*(KILLED_IN_UPDATE_6 if rank == victim else None for rank in range(2)))
    codes = [run.wait(300) for run in runs]
    assert codes[victim] == -signal.SIGKILL
    assert codes[1 - victim] == 1, runs[1 - victim].output()
    assert forks.updates_in(tmp_path / "run" / "checkpoint_last.pt") == 4


@pytest.mark.parametrize(
    ("ended", "error", "said"),
    [
        ((EXIT_CODE,), SystemExit, str(EXIT_CODE)),
        ((-signal.SIGTERM, "SIGTERM"), SystemExit, str(EXIT_CODE)),  # asked before they began
        ((-signal.SIGUSR1, "SIGUSR1"), SystemExit, str(EXIT_CODE)),
        ((-9, "SIGKILL"), UserError, "worker 1 of 2 was killed by SIGKILL, so all have ended"),
        ((3,), SystemExit, "3"),
    ],
)
def test_the_end_of_a_worker(monkeypatch, ended, error, said):
    def join():
        raise ProcessExitedException("x", 1, 99, *ended)

    context = SimpleNamespace(join=join)
    monkeypatch.setattr(torch.multiprocessing, "spawn", lambda *args, **kwargs: context)
    cfg = training_config(*TWO_EPOCHS, *forks.DEBUG, "--distributed-world-size", "2").copy()
    with pytest.raises(error, match=said):
        distributed_utils.call_main(cfg, lambda cfg: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("send", "number", "code"),
    [(os.kill, signal.SIGTERM, EXIT_CODE), (os.killpg, signal.SIGINT, 130)],
)
def test_the_starter_hands_the_signal_on(toy_data_bin, tmp_path, send, number, code):
    """fairseq starts the workers itself; the scheduler knows only the process that it started."""
    flags = (*TWO_EPOCHS, "--max-update", 400, "--distributed-world-size", 2, "--num-workers", 1)
    run = forks.start_training(forks.debug_config(toy_data_bin, tmp_path / "run", *flags))
    run.wait_for("num_updates=6", timeout=300)
    send(run.pid, number)
    assert run.wait() == code, run.output()
    assert forks.updates_in(tmp_path / "run" / "checkpoint_last.pt") >= 6
