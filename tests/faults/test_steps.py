"""Updates that can't be made: NaN and infinite gradients, and batches that need too much memory."""

import math
import re

import pytest
import torch

from tests.support.forks import updates_in
from vaswani_plugin.fairseq_plugin.criterion import VaswaniLabelSmoothing
from vaswani_plugin.fairseq_plugin.optimizer import VaswaniAdam
from vaswani_plugin.fairseq_plugin.trainer import VaswaniTrainer, first_nonfinite

PARAMETER = "encoder.layers.0.feed_forward.w_1.weight"


def spoiled(value, when):
    """A fault: before an update of these numbers one gradient gets a value (tries, from 1)."""

    def fault():
        clip, tries = VaswaniTrainer.clip_grad_norm, []

        def clip_grad_norm(self, clip_norm):
            tries.append(1)
            if when(len(tries)):
                parameters = dict(self.get_model().named_parameters())
                parameters[PARAMETER].grad.view(-1)[0] = value
                print("spoiled", PARAMETER, flush=True)
            return clip(self, clip_norm)

        VaswaniTrainer.clip_grad_norm = clip_grad_norm

    return fault


@pytest.mark.parametrize(
    ("value", "kind", "flags"),
    [
        (-math.inf, "infinite", ()),
        (math.nan, "NaN", ("--clip-norm", 0.1, "--amp")),
        (math.nan, "NaN", ("--optimizer", "adam", "--lr", 0.01)),
    ],
)
def test_the_update_is_skipped_and_counted(start, tmp_path, value, kind, flags):
    run = start(tmp_path / "run", *flags, fault=spoiled(value, lambda n: n in (3, 6, 7)))
    assert run.wait() == 0, run.output()
    log = run.output()
    name = re.search("spoiled (.*)", log)[1]
    assert f"update 3: the gradient of {name} is {kind}; skipped (1 in a row of at most 10)" in log
    assert f"update 5: the gradient of {name} is {kind}; skipped (2 in a row" in log
    assert "| nonfinite 3" in log
    assert updates_in(tmp_path / "run" / "checkpoint_last.pt") == 14
    state = torch.load(tmp_path / "run" / "checkpoint_last.pt")["model"]
    assert all(torch.isfinite(weight).all() for weight in state.values())
    assert not (tmp_path / "run" / "crash.pt").exists()


def test_the_skipped_batch_leaves_no_trace(start, tmp_path):
    """The same as a run in which the optimizer did not take that step."""

    def passed_over():
        step, train_step, calls = VaswaniAdam.step, VaswaniTrainer.train_step, []

        def not_the_third(self, *args, **kwargs):
            calls.append(1)
            if len(calls) != 3:
                step(self, *args, **kwargs)

        def count_no_third(self, *args, **kwargs):
            before = self.get_num_updates()
            logged = train_step(self, *args, **kwargs)
            if len(calls) == 3:
                self.set_num_updates(before)
            return logged

        VaswaniAdam.step, VaswaniTrainer.train_step = not_the_third, count_no_third

    flags = ("--max-update", 6, "--disable-validation", "--bf16")
    assert start(tmp_path / "a", *flags, fault=spoiled(math.nan, lambda n: n == 3)).wait() == 0
    assert start(tmp_path / "b", *flags, fault=passed_over).wait() == 0
    ours, theirs = (torch.load(tmp_path / x / "checkpoint_last.pt")["model"] for x in "ab")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_too_many_in_a_row_stop_the_training(start, tmp_path):
    fault = spoiled(math.nan, lambda n: n in (2, 3) or n >= 6)
    run = start(tmp_path / "run", "--max-nonfinite-updates", 3, fault=fault)
    assert run.wait() == 1
    error = run.output().splitlines()[-1]
    name = re.search("spoiled (.*)", run.output())[1]
    assert error.startswith(f"error: update 4: the gradient of {name} is NaN; 3 tries in a row ")
    assert "--max-nonfinite-updates 3" in error


def test_the_overflow_of_a_norm_is_told_apart():
    model = torch.nn.Linear(2, 1, bias=False)
    model.weight.grad = torch.full((1, 2), 3e38)
    assert first_nonfinite(model) == "the gradient's norm is infinite, its numbers are not"


def failing_in(errors):
    """A fault: the criterion fails in these tries, after the fused loss has made gradients."""

    def fault():
        forward, calls = VaswaniLabelSmoothing.forward, []

        def fail(self, model, sample, reduce=True):
            found = forward(self, model, sample, reduce)
            calls.append(model.training)
            if model.training and sum(calls) in errors:
                raise errors[sum(calls)]
            return found

        VaswaniLabelSmoothing.forward = fail

    return fault


def test_a_batch_without_room_is_skipped(start, tmp_path):
    errors = {3: torch.OutOfMemoryError("CUDA out of memory.")}
    run = start(tmp_path / "run", "--max-update", 8, fault=failing_in(errors))
    assert run.wait() == 0, run.output()
    assert run.output().count("attempting to recover from OOM") == 1
    assert updates_in(tmp_path / "run" / "checkpoint_last.pt") == 8


def test_one_of_several_workers_can_not_skip(start_two):
    runs = start_two(None, failing_in({2: torch.OutOfMemoryError("CUDA out of memory.")}))
    assert all(run.wait(300) for run in runs), [run.output() for run in runs]
    assert "CUDA out of memory." in runs[1].output().splitlines()[-1]
