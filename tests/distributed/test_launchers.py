"""Whoever starts the workers, on one node or two, they train as one worker does.

Each is started as a recipe starts it.
"""

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

from tests.conftest import REPO, fairseq_environment
from tests.distributed.conftest import NO_DROPOUT, assert_same_weights
from tests.support.forks import Training, train

UPDATES = 6  # an epoch and a half by two workers
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
    folders = (Path(sys.executable).parent, fairseq_environment()["PATH"])
    path = ":".join(map(str, folders))
    return subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=fairseq_environment(PATH=path),
        start_new_session=True,
    )


def finish(*processes: subprocess.Popen) -> str:
    """Wait for all of them; what they said. None outlives this, nor what they started."""
    end = time.monotonic() + SECONDS
    try:
        said = "".join(
            process.communicate(timeout=end - time.monotonic())[0] for process in processes
        )
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert all(process.returncode == 0 for process in processes), said[-4000:]
    return said


@pytest.fixture(scope="module")
def flags(flags_of_tasks) -> tuple:
    return (*flags_of_tasks["translation"], *NO_DROPOUT, "--max-update", UPDATES)


@pytest.fixture(scope="module")
def alone(flags, tmp_path_factory) -> Training:
    """One worker that collects two batches for each update."""
    return train(tmp_path_factory.mktemp("alone"), *flags, "--update-freq", 2)


@pytest.fixture
def start(flags, tmp_path) -> tuple:
    """A function of a recipe's options that gives the command."""
    script = tmp_path / "start.sh"
    script.write_text(START)
    (tmp_path / "data-bin").symlink_to(flags[0])
    training = (*flags[1:], "--disable-validation", "--save-dir", tmp_path)
    return lambda *options: (
        *("bash", script, "--work", tmp_path, *options, "--cpu", "--", *training),
    )


def assert_trained_as(alone: Training, folder: Path, said: str) -> None:
    logs = said + "".join(path.read_text() for path in (folder / "logs").glob("*"))
    assert logs.count("done training") == 1, f"each worker trained alone: {said}"
    together = torch.load(folder / "checkpoint_last.pt")
    assert together["optimizer_history"][-1]["num_updates"] == UPDATES
    assert_same_weights(together["model"], alone.weights())


def test_two_nodes_on_one_machine(alone, start, tmp_path):
    """The one that needs the other starts first, and waits."""
    nodes = ("--nodes", 2, "--master", f"localhost:{free_port()}", "--node-rank")
    second, first = begin(*start(*nodes, 1)), begin(*start(*nodes, 0))
    assert_trained_as(alone, tmp_path, finish(first, second))


@pytest.mark.slow
def test_two_workers_on_one_node(alone, start, tmp_path):
    assert_trained_as(alone, tmp_path, finish(begin(*start(), "--distributed-world-size", 2)))
