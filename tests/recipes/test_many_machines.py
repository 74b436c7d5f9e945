"""Parts of a corpus on many machines: as one process does them, each once, whoever dies."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from toy_bundle import SENTENCES

from tests.conftest import REPO, fairseq_environment
from tests.support.commands import vaswani, wait_for
from tests.support.scripts import quick_environment, run_script

RAY = REPO / "examples" / "many_machines.py"
SLURM = REPO / "recipes" / "slurm" / "parts.sbatch"


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> Path:
    """Six texts of 150 lines; one of them has a line that is too long for the model."""
    rng, folder = random.Random(1), tmp_path_factory.mktemp("parts")
    words = " ".join(SENTENCES).split()
    for number in range(6):
        lines = [" ".join(rng.choices(words, k=6)) for _ in range(150)]
        lines[7] *= 1 if number else 9
        (folder / f"{number:05}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def inodes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.iterdir()}


def kill_an_actor(program: int) -> None:
    """Kills one of the actors below Ray's daemon, which this process has started."""
    below = [str(program)]
    for name in ("raylet", "ray::MapWorker"):
        command = ["ps", "-o", "pid=,args=", "--ppid", ",".join(below)]
        listed = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
        below = [line.split()[0] for line in listed if name in line]
    os.kill(int(below[0]), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "flags"),
    [("translate", ("--model", "{}")), ("prepare", ("--language", "en", "--codes", "{}/codes"))],
)
def test_ray_does_what_one_process_does(task, flags, parts, toy_bundle, tmp_path):
    """Two actors, one of them killed at its first part; then a part is lost."""
    pytest.importorskip("ray", reason="ray is not installed: pip install -e '.[ray]'")
    flags = [flag.format(toy_bundle) for flag in flags]
    output, expected, words = (tmp_path / name for name in ("out", "expected", "words"))
    program = [*map(str, (sys.executable, RAY, task, *flags, parts, output))]
    quiet = fairseq_environment(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled")

    def run(kill: bool) -> str:
        with (tmp_path / "log").open("w+", encoding="utf-8") as log:
            running = subprocess.Popen(program, env=quiet, stdout=log, stderr=log)
            if kill:
                wait_for(output.exists, 900)
                kill_an_actor(running.pid)
            code = running.wait(900)
        said = (tmp_path / "log").read_text(encoding="utf-8")
        assert code == 0, said[-5000:]
        return said

    run(kill=True)
    for part in parts.iterdir():
        if task == "translate":
            vaswani(task, *flags, "--long", "split", "--cpu", part, "--output", expected)
        else:
            files = ("--input", part, "--output", words), ("--input", words, "--output", expected)
            run_script("data-prep/normalize_tokenize.py", *flags[:2], *files[0])
            run_script("data-prep/bpe.py", "apply", *flags[2:], *files[1])
        assert (output / part.name).read_bytes() == expected.read_bytes(), part
    (output / "00003").unlink()
    before = inodes(output)
    assert "6 parts, 1 of them to do" in run(kill=False)
    assert before.items() < inodes(output).items() and (output / "00003").exists()


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
