"""Trainings for tests to disturb, and one that nothing disturbed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.forks import TrainingFork, as_worker, debug_config, start_training

TWO_EPOCHS = ("--max-update", "14", "--save-interval-updates", "4", "--keep-interval-updates", "2")


@pytest.fixture
def start(toy_data_bin: Path) -> Callable[..., TrainingFork]:
    """``start(SAVE_DIR, "--flag", …, fault=F)`` begins to train as `TWO_EPOCHS` says."""

    def begin(save_dir: Path, *flags: object, fault=None) -> TrainingFork:
        return start_training(debug_config(toy_data_bin, save_dir, *TWO_EPOCHS, *flags), fault)

    return begin


@pytest.fixture
def start_two(toy_data_bin: Path, tmp_path: Path) -> Callable[..., list[TrainingFork]]:
    """``start_two(FAULT, FAULT)``: two workers, each with its fault or None, save in `run`."""

    def begin(*faults) -> list[TrainingFork]:
        cfg = debug_config(toy_data_bin, tmp_path / "run", *TWO_EPOCHS)
        return [
            start_training(as_worker(cfg, rank, 2, tmp_path / "meeting"), fault)
            for rank, fault in enumerate(faults)
        ]

    return begin


@pytest.fixture(scope="session")
def undisturbed(toy_data_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The save folder of a run of `TWO_EPOCHS` to its end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run = start_training(debug_config(toy_data_bin, folder, *TWO_EPOCHS))
    assert run.wait() == 0, run.output()
    return folder
