"""The patches as a whole: repeatable, one layer deep, for one version of fairseq."""

import inspect
import logging
import sys

import fairseq
import numpy as np
import pytest
import torch
from fairseq.data import data_utils, token_block_dataset
from fairseq.models import distributed_fairseq_model

import vaswani_plugin
from vaswani_plugin.fairseq_plugin import patches, trainer
from vaswani_plugin.fairseq_plugin.patches._patching import patch

vaswani_plugin.register()


def patched_functions() -> dict[str, object]:
    """Every function of fairseq's modules and classes that a patch replaced, by its name."""
    found = {}
    for module in [m for name, m in sys.modules.items() if name.startswith("fairseq")]:
        for owner in (module, *filter(inspect.isclass, vars(module).values())):
            for name, function in inspect.getmembers(owner, inspect.isfunction):
                if hasattr(function, "patched_by"):
                    found[f"{owner.__name__}.{name}"] = function
    return found


def test_applying_twice_changes_nothing():
    places = [
        *((token_block_dataset, "np"), (fairseq.trainer, "Trainer"), (sys, "excepthook")),
        (distributed_fairseq_model, "DistributedDataParallel"),
    ]

    def state() -> tuple:
        allowed = set(map(str, torch.serialization.get_safe_globals()))
        return patched_functions(), [getattr(*place) for place in places], allowed

    assert not hasattr(sys.excepthook, "patched_by")  # pytest is no command of fairseq's
    before = state()
    assert len(before[0]) > 15
    patches.apply()
    trainer.install()
    assert state() == before
    assert hasattr(np, "compat") is (int(np.__version__[0]) < 2)  # numpy stays as it is
    with pytest.raises(AssertionError, match="batch_by_size: patched by .*keep_last_batch"):
        patch(data_utils, "batch_by_size")(lambda original: None)


def test_another_version_of_fairseq_is_named(monkeypatch, caplog):
    with caplog.at_level(logging.WARNING):
        patches.apply()
        assert caplog.text == ""
        monkeypatch.setattr(fairseq, "__version__", "0.13.0")
        patches.apply()
    assert "fairseq is 0.13.0, and the plugin patches defects of 0.12.3.1" in caplog.text
