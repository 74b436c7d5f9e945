"""The patches as a whole: repeatable, one layer deep, described."""

import inspect
import logging
import sys
from pathlib import Path

import fairseq
import numpy as np
import pytest
import torch
from fairseq.data import data_utils, token_block_dataset
from fairseq.models import distributed_fairseq_model

import vaswani_plugin
from tests.conftest import PLUGIN
from vaswani_plugin.fairseq_plugin import patches
from vaswani_plugin.fairseq_plugin.patches._patching import patch
from vaswani_plugin.fairseq_plugin.training import trainer

vaswani_plugin.register()


def is_ours(function) -> bool:
    """Whether the plugin's code runs when it is called."""
    code = getattr(function, "__code__", None)
    return code is not None and Path(code.co_filename).is_relative_to(PLUGIN)


def functions_of_fairseq() -> dict[str, object]:
    """Every function of fairseq's modules and their classes, by its name."""
    found = {}
    modules = [m for n, m in sys.modules.items() if n.partition(".")[0].startswith("fairseq")]
    for module in modules:
        owners = [module, *(kind for kind in vars(module).values() if inspect.isclass(kind))]
        for owner in owners:
            if not getattr(owner, "__module__", module.__name__).startswith("fairseq"):
                continue
            for name, value in list(vars(owner).items()):
                function = value.__func__ if isinstance(value, staticmethod) else value
                if inspect.isfunction(function):
                    found[f"{owner.__name__}.{name}"] = function
    return found


def test_applying_twice_changes_nothing():
    places = [
        *((token_block_dataset, "np"), (fairseq.trainer, "Trainer"), (sys, "excepthook")),
        (distributed_fairseq_model, "DistributedDataParallel"),
    ]

    def state() -> tuple:
        allowed = set(map(str, torch.serialization.get_safe_globals()))
        return functions_of_fairseq(), [getattr(*place) for place in places], allowed

    before = state()
    patches.apply()
    trainer.install()
    assert state() == before
    assert not hasattr(np, "compat")  # numpy itself stays as it is


def test_no_function_of_fairseq_is_wrapped_twice():
    ours = {name: f for name, f in functions_of_fairseq().items() if is_ours(f)}
    assert len(ours) > 15
    for name, function in ours.items():
        assert hasattr(function, "__wrapped__"), f"{name} is the plugin's, but no patch"
        assert not is_ours(function.__wrapped__), f"{name} is wrapped twice"
    with pytest.raises(AssertionError, match="batch_by_size: patched by .*keep_last_batch"):
        patch(data_utils, "batch_by_size")(lambda original: None)


def test_another_version_of_fairseq_is_named(monkeypatch, caplog):
    with caplog.at_level(logging.WARNING):
        patches.apply()
        assert caplog.text == ""
        monkeypatch.setattr(fairseq, "__version__", "0.13.0")
        patches.apply()
    assert "fairseq is 0.13.0, and the plugin patches defects of 0.12.3.1" in caplog.text
