"""Parts of a corpus on many machines: each once, in their order, whatever fails."""

import os
import random
import subprocess
from pathlib import Path

import pytest
from toy_bundle import SENTENCES

from tests.conftest import REPO
from tests.support.scripts import quick_environment

SLURM = REPO / "recipes" / "slurm" / "parts.sbatch"


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> Path:
    """Six texts of 150 lines."""
    rng, folder = random.Random(1), tmp_path_factory.mktemp("parts")
    words = " ".join(SENTENCES).split()
    for number in range(6):
        lines = [" ".join(rng.choices(words, k=6)) for _ in range(150)]
        (folder / f"{number:05}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def inodes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.iterdir()}


def job(parts: Path, output: Path, task: int, *command: str, last: int = 2) -> int:
    """Runs the job of this number of an array of three."""
    slurm = {"TASK_ID": task, "TASK_MIN": 0, "TASK_MAX": last, "TASK_COUNT": 3}
    variables = {f"SLURM_ARRAY_{name}": str(value) for name, value in slurm.items()}
    variables |= {"SLURM_SUBMIT_DIR": str(REPO), "SLURM_JOB_ID": str(50 + task)}
    environment = quick_environment() | variables
    script = ["bash", SLURM, parts, output, *command]
    return subprocess.run([*map(str, script)], env=environment, capture_output=True).returncode


def test_an_array_of_jobs_does_each_part_once(parts, tmp_path):
    """A job whose command fails at a part does its others; the same array does what is left."""
    output, upper = tmp_path / "out", ("tr", "a-z", "A-Z")
    assert job(parts, output, 0, *upper, last=9) == 1 and not output.exists()
    fails = ("bash", "-c", "read -r line && echo half && [[ $line != $1 ]] && cat", "x")
    first = (parts / "00001").read_text(encoding="utf-8").split("\n")[0]
    assert [job(parts, output, task, *fails, first) for task in (0, 1, 2)] == [0, 0, 1]
    assert sorted(os.listdir(output)) == ["00000", "00002", "00003", "00004", "00005"]
    (output / ".00001.9").write_text("a killed job's\n")
    before = inodes(output)
    assert [job(parts, output, task, *upper) for task in (0, 1, 2)] == [0, 0, 0]
    assert before.items() < inodes(output).items()
    assert (output / "00001").read_bytes() == (parts / "00001").read_bytes().upper()
