"""Two workers, of one node or two, train as one does with ``--update-freq 2``, and go on alike."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import toy_language_model
from torch import Tensor
from toy_parser import write_tree_data

from tests.conftest import REPO, fairseq_environment
from tests.support.forks import Training, train

# Highest rate 5e-3 after 20 updates: what goes wrong shows, and differences grow.
FAST = ("--warmup-updates", "20", "--lr-factor", "0.13", "--seed", "3", "--num-workers", "0")
NO_DROPOUT = ("--dropout", "0")


def assert_same_weights(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Equal but for the order in which gradients are added; one wrong update makes up 1e-3."""
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        # A softmax doesn't see what all keys have in common: the gradient of their bias is noise.
        if not name.endswith("key.bias"):
            torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-4, msg=name)


@pytest.fixture(scope="module")
def flags_of_tasks(toy_data_bin, tmp_path_factory) -> dict[str, tuple]:
    """Task: flags of fairseq-train, without a length. No epoch has an even number of batches."""
    language_data = toy_language_model.write_data(tmp_path_factory.mktemp("language"))
    tree_data = write_tree_data(tmp_path_factory.mktemp("trees"))
    translation = (toy_data_bin, "--task", "vaswani_translation", "--arch", "vaswani_debug")
    language = (language_data, "--task", "vaswani_language_modeling", "--arch", "vaswani_lm_debug")
    parsing = (tree_data, "--task", "vaswani_parsing", "--arch", "vaswani_parser_debug")
    return {
        "translation": (*translation, "--max-tokens", 100, *FAST),
        "language modeling": (*language, "--tokens-per-sample", 32, "--max-tokens", 320, *FAST),
        "parsing": (*parsing, "--max-tokens", 900, *FAST),
    }


TOLERANCE = 1e-4  # relative, of the losses
FEW = 10  # updates: two epochs and a half of the translations'


def assert_same_training(one: Training, other: Training) -> None:
    """Both succeeded, with the same losses all along and the same weights in the end."""
    assert one.code == other.code == 0, one.log + other.log
    assert len(one.losses) == FEW
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
    assert_same_training(one, train(tmp_path / "two", *flags, workers=2))


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
    assert_same_training(alone, train(tmp_path, *shared, *flags, workers=2))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["pytorch_ddp", "legacy_ddp"])
@pytest.mark.parametrize("unused", [(), ("--find-unused-parameters",)])
def test_a_projection_of_its_own(flags_of_tasks, backend, unused, tmp_path):
    """It is used outside of the wrapped model's forward pass, by the fused loss."""
    flags = (*flags_of_tasks["translation"], *NO_DROPOUT, "--share-embeddings", "none")
    flags = (*flags, "--max-update", FEW, *unused)
    one = train(tmp_path / "one", *flags, "--update-freq", 2)
    assert_same_training(one, train(tmp_path / "two", *flags, "--ddp-backend", backend, workers=2))


@pytest.mark.parametrize("workers", [1, 2])
def test_another_number_of_workers_goes_on(flags_of_tasks, alone, workers, tmp_path):
    """In the middle of an epoch, and of one that is not the process's first."""
    flags = (*flags_of_tasks["translation"], *NO_DROPOUT)
    frequency = {1: ("--update-freq", 2), 2: ("--update-freq", 1)}
    begun = train(tmp_path, *flags, *frequency[workers], "--max-update", 6, workers=workers)
    others = 3 - workers
    end = train(tmp_path, *flags, *frequency[others], "--max-update", FEW, workers=others)
    said = f"batches of {workers} workers with {others}"
    assert begun.code == 0 and said in end.log, begun.log + end.log
    assert_same_training(alone, Training(end.code, begun.losses + end.losses, end.folder, end.log))


def test_nodes_that_share_no_folder_are_told_so(flags_of_tasks, tmp_path):
    flags = flags_of_tasks["translation"]
    assert train(tmp_path, *flags, "--max-update", 1).code == 0
    resumed = train(tmp_path, *flags, "--max-update", 2, workers=2, apart=True)
    assert resumed.code == 1
    assert resumed.log.count("only some workers see it; give all nodes the same --save-dir") == 2


@pytest.mark.parametrize("workers", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_a_training_repeats_itself_bit_by_bit(flags_of_tasks, tmp_path, workers):
    """With dropout, and whoever loads the data."""
    flags = (*flags_of_tasks["translation"], "--dropout", 0.1, "--max-update", FEW)
    one, other = (
        train(tmp_path / f"{processes}", *flags, "--num-workers", processes, workers=workers)
        for processes in (0, 2)
    )
    assert one.code == other.code == 0, one.log + other.log
    assert one.losses == other.losses
    weights = other.weights()
    for name, weight in one.weights().items():
        assert torch.equal(weights[name], weight), name


# Started as a recipe starts them.

SECONDS = 240  # none takes a quarter of it, unless nodes wait for one another without end

# start.sh OPTIONS -- FLAGS: a recipe of one step.
START = f"""
recipe=made-up
source {REPO}/recipes/common.sh
begin "$@"
step train train
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        return taken.getsockname()[1]


def begin(*command: object) -> subprocess.Popen:
    """A command, its output in one pipe."""
    path = ":".join(map(str, (Path(sys.executable).parent, fairseq_environment()["PATH"])))
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    options = {"env": fairseq_environment(PATH=path), "start_new_session": True}
    return subprocess.Popen([*map(str, command)], **pipe, **options)


def finish(*processes: subprocess.Popen) -> str:
    """Wait for all of them; what they said. None outlives this, nor what they started."""
    end = time.monotonic() + SECONDS
    try:
        said = "".join(each.communicate(timeout=end - time.monotonic())[0] for each in processes)
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert all(process.returncode == 0 for process in processes), said[-4000:]
    return said


@pytest.fixture
def start(flags_of_tasks, tmp_path) -> tuple:
    """A function of a recipe's options that gives the command."""
    script = tmp_path / "start.sh"
    script.write_text(START)
    data, *flags = flags_of_tasks["translation"]
    (tmp_path / "data-bin").symlink_to(data)
    training = (*flags, *NO_DROPOUT, "--max-update", FEW, "--disable-validation")
    return lambda *options: ("bash", script, "--work", tmp_path, *options, "--cpu", "--", *training)


def assert_trained_as(alone: Training, folder: Path, said: str) -> None:
    logs = said + "".join(path.read_text() for path in (folder / "logs").glob("*"))
    assert logs.count("done training") == 1, f"each worker trained alone: {said}"
    together = torch.load(folder / "checkpoints" / "checkpoint_last.pt")
    assert together["optimizer_history"][-1]["num_updates"] == FEW
    assert_same_weights(together["model"], alone.weights())


def test_two_nodes_on_one_machine(alone, start, tmp_path):
    """The one that needs the other starts first, and waits."""
    nodes = ("--nodes", 2, "--master", f"localhost:{free_port()}", "--node-rank")
    second, first = begin(*start(*nodes, 1)), begin(*start(*nodes, 0))
    assert_trained_as(alone, tmp_path, finish(first, second))


@pytest.mark.slow
def test_two_workers_on_one_node(alone, start, tmp_path):
    assert_trained_as(alone, tmp_path, finish(begin(*start(), "--distributed-world-size", 2)))
