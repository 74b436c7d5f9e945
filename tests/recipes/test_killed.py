"""A recipe that is killed in each stage and started again ends as if nothing had happened."""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from tests.support.scripts import ROOT, quick_environment, run_bash

COMMAND = ("bash", str(ROOT / "recipes" / "quickstart.sh"), "--scale", "tiny", "--cpu")
# Times are written there, besides what the stages keep for themselves; weights are compared apart.
LEFT_OUT = ("logs/", "checkpoints/", ".stages/", ".lock", "averaged.pt", "model/model.pt")
WITH_TIMES = ("wall_seconds", "tokens_per_second")
# The commands of each stage; the kill comes while the last one runs, with the others' output there.
LAST_COMMAND = {
    "unpack": "toy/en-de/test.de.gz",
    "tokenize": "/test.de --output",
    "clean": "/test.en",
    "subwords": "/test.de --output",
    "binarize": "binarize.py",
    "train": "fairseq-train",
    "average": "vaswani average",
    "translate": "fairseq-generate",
    "score": "vaswani attention",
    "bundle": "vaswani card",
}


def final_files(work: Path) -> dict[str, str]:
    """sha256 of each file that a run leaves, by its path in the work folder."""
    files = {}
    for path in sorted(work.rglob("*")):
        name = str(path.relative_to(work))
        if not path.is_file() or name.startswith(LEFT_OUT):
            continue
        content = path.read_bytes()
        if name == "result.json":
            result = {k: v for k, v in json.loads(content).items() if k not in WITH_TIMES}
            content = json.dumps(result).encode()
        files[name] = hashlib.sha256(content).hexdigest()
    return files


def parameters(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint."""
    with torch.serialization.safe_globals([argparse.Namespace]):
        return torch.load(checkpoint, weights_only=True)["model"]


def assert_same_run(work: Path, other: Path) -> None:
    """Every file has the same content, every checkpoint the same weights."""
    assert final_files(work) == final_files(other)
    names = {path.name for path in (other / "checkpoints").glob("*.pt")}
    assert {path.name for path in (work / "checkpoints").glob("*.pt")} == names
    for name in ["averaged.pt", "model/model.pt", *(f"checkpoints/{name}" for name in names)]:
        ours, theirs = parameters(work / name), parameters(other / name)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs), name


def has_begun(stage: str, work: Path, log: str) -> bool:
    """Whether the stage is at its last command, and has done some of it."""
    begun = log.find(f": stage {list(LAST_COMMAND).index(stage) + 2}, {stage}\n")
    if begun < 0 or LAST_COMMAND[stage] not in log[begun:]:
        return False
    if stage == "train":
        return (work / "checkpoints" / "checkpoint1.pt").exists()
    return True


def start_and_kill(stage: str, work: Path, log: Path) -> None:
    """Runs the recipe until it is in the midst of a stage, then ends all its processes."""
    with open(log, "w") as stream:
        process = subprocess.Popen(
            [*COMMAND, "--work", str(work)],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=stream,
            env=quick_environment(),
        )
        while not has_begun(stage, work, log.read_text()):
            assert process.poll() is None, f"{stage}: {log.read_text()[-3000:]}"
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not (work / ".stages" / stage).exists(), "the kill came too late to test it"


@pytest.fixture(scope="module")
def uninterrupted(quickstart) -> Path:
    """The work folder of a run that nothing disturbed."""
    done, work = quickstart
    assert done.returncode == 0, done.stderr[-3000:]
    return work


@pytest.mark.slow
def test_killed_in_every_stage(uninterrupted, tmp_path):
    work, log = tmp_path / "w k", tmp_path / "log"
    for stage in LAST_COMMAND:
        start_and_kill(stage, work, log)
    done = run_bash(*COMMAND[1:], "--work", work, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("done before") == 10
    assert "Loaded checkpoint" in (work / "logs" / "train.log").read_text()
    assert_same_run(work, uninterrupted)


def test_killed_while_training(uninterrupted, tmp_path):
    work = tmp_path / "w k"
    shutil.copytree(uninterrupted, work)
    for name in ("model", "output", "checkpoints"):
        shutil.rmtree(work / name)
    for name in list(LAST_COMMAND)[list(LAST_COMMAND).index("train") :]:
        (work / ".stages" / name).unlink()
    start_and_kill("train", work, tmp_path / "log")
    # The folder's lock goes with the last of the killed processes.
    done = run_bash(*COMMAND[1:], "--work", work, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("done before") == 6
    assert_same_run(work, uninterrupted)
