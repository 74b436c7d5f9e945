"""A sample of `drive.py`: five points at random, each of which must be survived."""

import re
import subprocess
import sys

from tests.conftest import REPO, fairseq_environment


def test_five_points(tmp_path):
    command = [sys.executable, str(REPO / "tests" / "faults" / "drive.py")]
    command += ["--points", "5", "--seed", "2", "--minutes", "20", "--work", str(tmp_path / "w")]
    done = subprocess.run(
        command, capture_output=True, text=True, env=fairseq_environment(), timeout=1500
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.search(r"^5 points in \d+ s, 0 chains failed$", done.stdout, re.MULTILINE)
