"""A sample of the fuzzed inputs, and that the sandbox sees what it is there to see.

`python tests/fuzz/drive.py --inputs 10000` is the long run.
"""

import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.payloads import CANARY, SECRET, Calls, bombs
from tests.fuzz.sandbox import Outcome, run_cases
from tests.support.scripts import run_script

SAMPLE = 60
SEED = 1


def test_broken_files_are_refused_and_hostile_ones_do_nothing():
    done = run_script("tests/fuzz/drive.py", "--inputs", SAMPLE, "--seed", SEED, timeout=1800)
    last = done.stdout.strip().rpartition("\n")[2]
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    taken, refused, faults = map(int, re.findall(r"(\d+) (?:taken|refused|faults)", last))
    assert (taken + refused, faults) == (SAMPLE, 0)
    assert refused > SAMPLE / 3, "the files are hardly broken"


@pytest.fixture
def outcome_of(tmp_path, monkeypatch) -> Callable[[Callable[[], object]], Outcome]:
    """Runs a function as a case in the sandbox."""
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / SECRET).write_text("secret")
    monkeypatch.chdir(work)

    def run(case: Callable[[], object]) -> Outcome:
        ((_, outcome),) = run_cases(lambda _: lambda: case() or 0, [0], work)
        return outcome

    return run


def test_an_innocent_case(outcome_of):
    def case() -> None:
        Path("made").mkdir()
        Path("made/file").write_text("x")
        Path("made/file").rename("made/other")
        Path("made/other").unlink()

    outcome = outcome_of(case)
    assert (outcome.code, outcome.fault()) == (0, None)


def refuse(message: str) -> None:
    print(message, file=sys.stderr)
    sys.exit(1)


def test_an_error_told_as_one(outcome_of):
    assert outcome_of(lambda: refuse("vaswani lm: error: x: no text")).fault() is None


GUILTY = {
    "write": lambda: Path("../escaped").write_text("x"),
    "append": lambda: open("../escaped", "a"),
    "link": lambda: os.symlink("x", "../escaped"),
    "rename": lambda: (Path("x").write_text("x"), os.rename("x", "../escaped")),
    "remove": lambda: os.remove(f"../{SECRET}"),
    "read": lambda: Path(f"../{SECRET}").read_text(),
    "shell": lambda: os.system("true"),
    "process": lambda: subprocess.run(["true"]),
    "socket": lambda: socket.socket().connect(("127.0.0.1", 9)),
    "name": lambda: socket.getaddrinfo("localhost", 80),
    "pickle": lambda: pickle.loads(pickle.dumps(Calls(os.system, "true"))),
}


@pytest.mark.parametrize("deed", GUILTY)
def test_forbidden_deeds_are_seen_even_where_errors_are_swallowed(outcome_of, deed):
    def case() -> None:
        try:
            GUILTY[deed]()
        except OSError:
            return

    assert outcome_of(case).fault().startswith("forbidden: ")


FAULTY = {
    "traceback: KeyError": lambda: {}["x"],
    "exit code 1 without": lambda: sys.exit(1),
    "exit code 2 without": lambda: print("it failed", file=sys.stderr) or sys.exit(2),
    "control character": lambda: refuse("vaswani lm: error: \x1b[31m"),
    "a message of 2": lambda: refuse("vaswani lm: error: " + 2000 * "x"),
    "killed by signal 9": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "traceback: MemoryError": lambda: bytes(1 << 34),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_faults_are_seen(outcome_of, fault):
    assert fault in (outcome_of(FAULTY[fault]).fault() or "no fault")


def test_hangs_are_ended(outcome_of, monkeypatch):
    def spin() -> None:
        while True:
            pass

    monkeypatch.setattr("tests.fuzz.sandbox.CPU_SECONDS", 0.3)
    assert outcome_of(spin).fault().startswith("hang")
    monkeypatch.setattr("tests.fuzz.sandbox.WALL_SECONDS", 0.3)
    assert outcome_of(lambda: time.sleep(60)).fault().startswith("hang")


def test_a_case_that_dies_takes_no_other_along(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    die = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
    cases = {0: lambda: 0, 1: die, 2: lambda: 0, 3: die}
    found = dict(run_cases(cases.__getitem__, list(cases), work))
    assert [found[n].code for n in cases] == [0, None, 0, None]


def test_the_payloads_do_run_code_where_they_are_believed(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    pickle.loads(pickle.dumps(Calls(os.system, f"touch ../{CANARY}")))
    assert (tmp_path / CANARY).exists()
    assert all(len(packed) < 1 << 20 for packed in bombs().values())
