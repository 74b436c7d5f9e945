"""Two workers train as one does with ``--update-freq 2``; who goes on with a training is free."""

import pytest
import torch

from tests.distributed.conftest import NO_DROPOUT, assert_same_weights
from tests.support.forks import Training, train

TOLERANCE = 1e-4  # relative, of the losses
FEW = 10  # updates: two epochs and a half of the translations'


def assert_same_training(one: Training, other: Training, updates: int) -> None:
    """Both succeeded, with the same losses all along and the same weights in the end."""
    assert one.code == other.code == 0, one.log + other.log
    assert len(one.losses) == updates
    assert other.losses == pytest.approx(one.losses, rel=TOLERANCE)
    assert_same_weights(other.weights(), one.weights())


@pytest.fixture(scope="module")
def alone(flags_of_tasks, tmp_path_factory) -> Training:
    """A few updates of the translation task by one worker that collects two batches for each."""
    folder = tmp_path_factory.mktemp("alone")
    flags = (*flags_of_tasks["translation"], *NO_DROPOUT, "--max-update", FEW)
    return train(folder, *flags, "--update-freq", 2)


@pytest.mark.parametrize("task", ["language modeling", "parsing"])
def test_two_workers_are_one_that_collects_two_batches(flags_of_tasks, task, tmp_path):
    flags = (*flags_of_tasks[task], *NO_DROPOUT, "--max-update", FEW)
    one = train(tmp_path / "one", *flags, "--update-freq", 2)
    two = train(tmp_path / "two", *flags, workers=2)
    assert_same_training(one, two, FEW)


@pytest.mark.parametrize(
    "flags",
    [
        ("--ddp-backend", "legacy_ddp"),
        pytest.param(("--ddp-backend", "pytorch_ddp"), marks=pytest.mark.slow),
        pytest.param(("--unfused-loss",), marks=pytest.mark.slow),
    ],
)
def test_every_way_to_share_gradients(flags_of_tasks, alone, flags, tmp_path):
    shared = (*flags_of_tasks["translation"], *NO_DROPOUT, "--max-update", FEW)
    assert_same_training(alone, train(tmp_path, *shared, *flags, workers=2), FEW)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["pytorch_ddp", "legacy_ddp"])
@pytest.mark.parametrize("unused", [(), ("--find-unused-parameters",)])
def test_a_projection_of_its_own(flags_of_tasks, backend, unused, tmp_path):
    """It is used outside of the wrapped model's forward pass, by the fused loss."""
    flags = (*flags_of_tasks["translation"], *NO_DROPOUT, "--share-embeddings", "none")
    flags = (*flags, "--max-update", FEW, *unused)
    one = train(tmp_path / "one", *flags, "--update-freq", 2)
    two = train(tmp_path / "two", *flags, "--ddp-backend", backend, workers=2)
    assert_same_training(one, two, FEW)


@pytest.mark.parametrize("workers", [1, 2])
def test_another_number_of_workers_goes_on(flags_of_tasks, alone, workers, tmp_path):
    """In the middle of an epoch, and of one that is not the process's first."""
    flags = (*flags_of_tasks["translation"], *NO_DROPOUT)
    frequency = {1: ("--update-freq", 2), 2: ("--update-freq", 1)}
    begun = train(tmp_path, *flags, *frequency[workers], "--max-update", 6, workers=workers)
    others = 3 - workers
    end = train(tmp_path, *flags, *frequency[others], "--max-update", FEW, workers=others)
    assert begun.code == 0 and f"batches of {workers} workers with {others}" in end.log, (
        begun.log + end.log
    )
    whole = Training(end.code, begun.losses + end.losses, end.folder, end.log)
    assert_same_training(alone, whole, FEW)


def test_nodes_that_share_no_folder_are_told_so(flags_of_tasks, tmp_path):
    flags = flags_of_tasks["translation"]
    assert train(tmp_path, *flags, "--max-update", 1).code == 0
    resumed = train(tmp_path, *flags, "--max-update", 2, workers=2, apart=True)
    assert resumed.code == 1
    assert resumed.log.count("only 1 of 2 workers see it; give all nodes the same --save-dir") == 2


def test_a_training_repeats_itself_bit_by_bit(flags_of_tasks, tmp_path):
    """With dropout, and whoever loads the data."""
    flags = (*flags_of_tasks["translation"], "--dropout", 0.1, "--max-update", FEW)
    one, other = (
        train(tmp_path / f"{processes}", *flags, "--num-workers", processes, workers=2)
        for processes in (0, 2)
    )
    assert one.code == other.code == 0, one.log + other.log
    assert one.losses == other.losses
    weights = other.weights()
    for name, weight in one.weights().items():
        assert torch.equal(weights[name], weight), name
