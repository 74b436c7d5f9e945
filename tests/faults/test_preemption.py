"""Asked to leave: the update at hand is saved, the exit code says so, the next start goes on."""

import os
import signal

import pytest

from tests.conftest import fairseq_environment
from tests.support.commands import run_python
from tests.support.forks import as_worker, assert_same_weights, start_training, updates_in
from vaswani_plugin.errors import EXIT_CODE_WHEN_PREEMPTED as EXIT_CODE
from vaswani_plugin.fairseq_plugin.training.trainer import VaswaniTrainer


def signalled_in(name, times, number=signal.SIGTERM, group=False, owner=VaswaniTrainer):
    """A fault: the process is sent a signal while it calls a method of the trainer."""

    def fault():
        original, calls = getattr(owner, name), []

        def method(self, *args, **kwargs):
            calls.append(name)
            if len(calls) == times:
                (os.killpg if group else os.kill)(os.getpid(), number)
            return original(self, *args, **kwargs)

        setattr(owner, name, method)

    return fault


@pytest.mark.parametrize(
    ("method", "times", "how", "saved"),
    [
        # as schedulers do: data-loader workers get the signal as well
        ("clip_grad_norm", 6, {"group": True}, 6),
        # an interval's end: validated and saved anyway
        ("clip_grad_norm", 8, {"number": signal.SIGUSR1}, 8),
        ("valid_step", 2, {}, 4),
    ],
)
def test_the_update_at_hand_is_saved(start, undisturbed, tmp_path, method, times, how, saved):
    folder = tmp_path / "run"
    loaders = ("--num-workers", 2) if "group" in how else ()
    left = start(folder, *loaders, fault=signalled_in(method, times, **how))
    assert left.wait() == EXIT_CODE == 75, left.output()
    assert f"left as asked after update {saved}, exit code 75" in left.output()
    assert updates_in(folder / "checkpoint_last.pt") == saved
    on = start(folder)
    assert on.wait() == 0, on.output()
    assert f"@ {saved} updates)" in on.output()
    assert_same_weights(folder / "checkpoint_last.pt", undisturbed / "checkpoint_last.pt")
    if saved == 8:  # the validation that was due is not lost
        log = left.output()
        assert log.index("asked to leave") < log.index("num_updates 8 | best_loss")


def test_a_finished_training_is_finished(start, tmp_path):
    run = start(tmp_path / "run", fault=signalled_in("clip_grad_norm", 14))
    assert run.wait() == 0
    assert updates_in(tmp_path / "run" / "checkpoint_last.pt") == 14


def test_before_it_begins_there_is_nothing_to_save(start, tmp_path):
    fault = signalled_in("__init__", 1, owner=VaswaniTrainer.__base__)
    run = start(tmp_path / "run", fault=fault)
    assert run.wait() == EXIT_CODE
    assert not list((tmp_path / "run").glob("*.pt"))


ENDING = """
import atexit, os, signal, sys
atexit.register(os.kill, os.getpid(), signal.SIGTERM)
sys.argv[0] = "fairseq-train"
import vaswani_plugin
vaswani_plugin.register()
from vaswani_plugin.fairseq_plugin.training import preemption
preemption.listen()
assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
sys.exit(3)
"""


def test_while_it_ends_a_signal_changes_nothing():
    """As to a worker that failed with the others: the one that started them signals the rest."""
    options = {"capture_output": True, "text": True, "env": fairseq_environment()}
    done = run_python("-c", ENDING, **options)
    assert (done.returncode, done.stderr) == (3, "")


def test_one_worker_is_asked_and_all_leave(toy_data_bin, tmp_path):
    from tests.faults.conftest import TWO_EPOCHS
    from tests.support.forks import debug_config

    cfg = debug_config(toy_data_bin, tmp_path / "run", *TWO_EPOCHS)
    faults = [None, signalled_in("clip_grad_norm", 2)]
    runs = [
        start_training(as_worker(cfg, rank, 2, tmp_path / "meeting"), f)
        for rank, f in enumerate(faults)
    ]
    assert [run.wait() for run in runs] == [EXIT_CODE] * 2, [run.output() for run in runs]
    assert updates_in(tmp_path / "run" / "checkpoint_last.pt") == 2
