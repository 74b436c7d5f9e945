"""Recipes run from end to end at --scale tiny."""

import json
import subprocess
from pathlib import Path

from tests.conftest import REPO
from tests.support.programs import run_bash_in_forks
from tests.support.scripts import quick_environment, run_bash
from tests.support.toy_text import write_toy


def run_recipe(
    name: str, work: Path, *args: object, forked: bool = True
) -> subprocess.CompletedProcess:
    """Run it to its end; `forked`: its Pythons are forks, which are soon there."""
    command = (REPO / "recipes" / f"{name}.sh", "--scale", "tiny", "--cpu", "--work", work, *args)
    if forked:
        done = run_bash_in_forks(*command, env=quick_environment(), timeout=1500)
    else:
        done = run_bash(*command, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def result_of(work: Path) -> dict:
    """What holds of every result.json and its bundle; returns the result."""
    result = json.loads((work / "result.json").read_text(encoding="utf-8"))
    assert result["updates"] > 0 and result["parameters"] > 1000
    assert result["versions"]["torch"] and result["versions"]["fairseq"]
    assert all(entry["lines"] > 0 for entry in result["data"])
    assert "not recorded" not in (work / "model" / "README.md").read_text("utf-8").lower()
    return result


def own(folder: Path) -> tuple:
    """Two files of 600 pairs, as flags of own_text.sh."""
    write_toy(folder, train=600)
    return ("--train", folder / "train.en", folder / "train.de")
