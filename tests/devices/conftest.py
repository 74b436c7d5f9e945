"""What the tests of devices share."""

import importlib
import sys

import pytest


@pytest.fixture
def as_on_a_device(monkeypatch):
    """The search takes the CPU for a device that it would have to wait for."""
    importlib.import_module("vaswani_plugin.search.search")
    for name, module in list(sys.modules.items()):
        ours = name.startswith(("vaswani_plugin.search.", "vaswani_plugin.kernels.packed"))
        ours = ours or name == "vaswani_plugin.kernels.slots"
        if ours and hasattr(module, "runs_on_host"):
            monkeypatch.setattr(module, "runs_on_host", lambda device: False)
