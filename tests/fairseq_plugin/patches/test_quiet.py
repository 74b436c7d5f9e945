"""A default run prints no known-harmless warning, and hides no other."""

import logging
import re
import sys
import warnings

import pytest
import torch

from vaswani_plugin.fairseq_plugin.patches import quiet


def test_training_is_quiet(stock_run):
    run, _ = stock_run
    assert run.stderr == ""
    assert not re.search("warning", run.stdout, re.IGNORECASE)


def test_generating_is_quiet_and_complete(toy_data_bin, run_fairseq, stock_checkpoint):
    run = run_fairseq(
        *("generate", toy_data_bin, "--path", stock_checkpoint, "--cpu", "--max-tokens", 500),
        *("--beam", 1, "--max-len-b", 10),
    )
    assert run.returncode == 0, run.stderr
    assert not re.search("warning|DEBUG", run.stderr + run.stdout)
    assert sorted(int(n) for n in re.findall(r"^H-(\d+)", run.stdout, re.M)) == list(range(60))


def test_only_the_known_messages_are_silenced():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet.silence_known_warnings()
        warnings.warn("`torch.cuda.amp.autocast(args...)` is deprecated.", FutureWarning, 1)
        warnings.warn("\nThe version_base parameter is not specified.", UserWarning, 1)
        with pytest.raises(UserWarning):
            warnings.warn("The loss is not finite", UserWarning, 1)
        with pytest.raises(FutureWarning):
            warnings.warn("`torch.cuda.amp.GradScaler(args...)` is deprecated", FutureWarning, 1)


@pytest.mark.parametrize("gpu", [True, False])
def test_pin_memory_speaks_where_there_is_a_gpu(monkeypatch, gpu):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()
        warnings.simplefilter("always")
        quiet.silence_known_warnings()
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found", stacklevel=1
        )
    assert len(seen) == gpu


@pytest.mark.parametrize(
    ("program", "loglevel", "level"),
    [
        ("/bin/fairseq-generate", None, logging.INFO),
        ("/bin/fairseq-generate", "debug", logging.DEBUG),
        ("/bin/pytest", None, logging.DEBUG),
    ],
)
def test_debug_lines_are_for_those_who_ask(monkeypatch, program, loglevel, level):
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.delenv("LOGLEVEL", raising=False)
    if loglevel is not None:
        monkeypatch.setenv("LOGLEVEL", loglevel)
    root = logging.getLogger()
    before = root.level
    try:
        root.setLevel(logging.DEBUG)
        quiet.set_log_level_to_info()
        assert root.level == level
    finally:
        root.setLevel(before)
