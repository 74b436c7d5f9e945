"""The examples do what their first lines say."""

import re

import preloaded

from tests.conftest import REPO, fairseq_environment

MOST_LINES = 60


def test_the_copy_task_is_learned_without_fairseq():
    path = REPO / "examples" / "copy_task.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) < MOST_LINES
    probe = (
        "import runpy, sys; runpy.run_module('examples.copy_task', run_name='__main__');"
        "assert 'fairseq' not in sys.modules"
    )
    done = preloaded.run_with_torch(
        *("-c", probe),
        capture_output=True,
        text=True,
        cwd=REPO,
        env=fairseq_environment(),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    right, of = map(int, re.search(r"without a mistake: (\d+) of (\d+)", done.stdout).groups())
    assert of == 200 and right >= 180, done.stdout
