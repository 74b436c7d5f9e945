"""Tests that need an NVIDIA GPU, skipped without one: bash tests/run.sh -m gpu tests/gpu

VASWANI_GPU_TESTS=cpu runs on the CPU what a CPU can run of them, as a rehearsal of the tests.
"""

import os
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).resolve().parent
REHEARSES = os.environ.get("VASWANI_GPU_TESTS") == "cpu"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, and skip them where there is no GPU."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if not (torch.cuda.is_available() or REHEARSES):
                item.add_marker(pytest.mark.skip(reason="PyTorch finds no GPU on this machine"))


@pytest.fixture
def device() -> torch.device:
    """The first GPU; in a rehearsal the CPU."""
    return torch.device("cpu" if REHEARSES else "cuda")


@pytest.fixture
def real_device() -> torch.device:
    """The first GPU, for what a rehearsal can't do."""
    if REHEARSES:
        pytest.skip("a rehearsal on the CPU")
    return torch.device("cuda")
