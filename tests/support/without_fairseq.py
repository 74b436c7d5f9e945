"""Commands of ours run where fairseq, and what it brings along, can't be imported."""

import subprocess

from tests.conftest import fairseq_environment
from tests.support.commands import run_python

BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("fairseq", "fairseq_cli", "hydra", "omegaconf"):
            raise ModuleNotFoundError(f"No module named {name!r}: blocked by the test")

sys.meta_path.insert(0, Blocked())
"""
COMMAND = "from vaswani_plugin.cli.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"


def run_without_fairseq(*args: object, program: str = COMMAND) -> subprocess.CompletedProcess:
    """Run ``vaswani args``, or another program, and wait; the output is bytes."""
    return run_python(
        *("-c", BLOCK + program, *args),
        capture_output=True,
        env=fairseq_environment(),
        timeout=120,
    )
