"""A recipe on made-up text opens no connection.

What the readers of files do is watched by tests/contracts.
"""

import subprocess
import sys

from tests.conftest import REPO
from tests.support.scripts import run_bash

REFUSE = """
import os, sys
with open(os.environ["WATCHED"], "a") as stream:
    print(*sys.orig_argv, file=stream)
def refuse(event, arguments):
    if event.startswith("socket.") and event != "socket.gethostname":
        raise SystemExit(f"NETWORK: {event} {arguments}")
sys.addaudithook(refuse)
"""


def test_a_recipe_on_made_text_connects_nowhere(tmp_path):
    """Its first stages, in processes whose Python ends at the first socket."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(REFUSE)
    watched = tmp_path / "watched"
    environment = {"PYTHONPATH": str(tmp_path / "site"), "WATCHED": str(watched)}
    probe = [sys.executable, "-c", "import socket; socket.create_connection(('127.0.0.1', 9))"]
    seen = subprocess.run(probe, env=environment, capture_output=True, text=True)
    assert "NETWORK: socket." in seen.stderr, "the test could see nothing"
    options = ("--cpu", "--scale", "tiny", "--work", tmp_path / "work", "--until", "bpe")
    done = run_bash(REPO / "recipes" / "quickstart.sh", *options, **environment)
    assert done.returncode == 0, done.stderr
    assert "NETWORK" not in done.stderr
    assert "bpe.py" in watched.read_text()
