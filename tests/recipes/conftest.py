"""What tests of several recipes share."""

import subprocess
from pathlib import Path

import pytest

from tests.support.scripts import ROOT, run_bash


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory) -> tuple[subprocess.CompletedProcess, Path]:
    """A finished quickstart at --scale tiny: its process and its work folder, which stays so."""
    work = tmp_path_factory.mktemp("quick start")
    script = ROOT / "recipes" / "quickstart.sh"
    return run_bash(script, "--scale", "tiny", "--cpu", "--work", work, timeout=1500), work
