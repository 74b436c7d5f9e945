"""The mutation driver on the smallest room: mutants are made, run, counted and not run again.

Slow: it installs cosmic-ray beside the environment, and runs a room's tests a few times.
"""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
ADAM = (REPO / "vaswani_plugin/fairseq_plugin/adam.py").read_text("utf-8")

pytestmark = pytest.mark.slow


def drive(*arguments: object) -> subprocess.CompletedProcess:
    command = ["bash", REPO / "tests/mutation/run.sh", "--rooms", "optim", *arguments]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=1200)


def test_mutants_are_other_programs_of_the_same_shape():
    done = drive("--list", 20)
    assert done.returncode == 0, done.stderr
    removed = re.findall(r"^    - (.*)", done.stdout, re.MULTILINE)
    added = re.findall(r"^    \+ (.*)", done.stdout, re.MULTILINE)
    assert len(removed) == len(added) >= 20
    assert all(old != new for old, new in zip(removed, added, strict=True))
    annotated = [n for n in ast.walk(ast.parse(ADAM)) if isinstance(n, ast.arg) and n.annotation]
    unions = {ast.unparse(n.annotation) for n in annotated if "|" in ast.unparse(n.annotation)}
    assert unions and not any(union in line for union in unions for line in removed)


@pytest.fixture
def cosmic_ray(monkeypatch):
    drive("--list", 1)  # installs it
    monkeypatch.syspath_prepend(Path(sys.prefix) / "mutation")


def test_a_mutant_that_is_no_python_is_not_drawn(cosmic_ray, tmp_path):
    from tests.mutation.mutants import all_mutants, sample

    (tmp_path / "a.py").write_text("a = {**b, c: d}\ne = f**g\n")
    assert len(all_mutants(tmp_path, "a.py")) == 2, "cosmic-ray changes both pairs of stars"
    assert [m.start[0] for m in sample(tmp_path, ["a.py"], 10, seed=1)] == [2]


def test_no_test_runs_a_recipe(cosmic_ray):
    from tests.mutation.drive import ROOMS, tests_of

    files = {file: (REPO / file).read_text("utf-8") for room in ROOMS for file in tests_of(room)}
    assert len(files) > 50
    assert not [file for file, text in files.items() if re.search(r'"recipes/[^"]+\.sh"', text)]


def test_a_run_counts_and_goes_on(tmp_path):
    first = drive("--count", 2, "--work", tmp_path, "--workers", 1, "--least", 0)
    assert first.returncode == 0, first.stdout + first.stderr
    again = drive("--count", 3, "--work", tmp_path, "--workers", 1, "--least", 1.01)
    assert again.returncode == 1, "no share is over 1"
    assert "optim: all tests pass" in first.stdout and "all tests pass" not in again.stdout
    entries = [json.loads(line) for line in (tmp_path / "mutants.jsonl").read_text().splitlines()]
    assert len({(e["path"], e["operator"], e["occurrence"]) for e in entries}) == 3
    noticed = sum(entry["noticed"] for entry in entries)
    assert again.stdout.splitlines()[-1].split()[:4] == ["all", str(noticed), "of", "3"]
    assert all(entry["by"].startswith(("FAILED", "ERROR")) for entry in entries if entry["noticed"])
