"""The examples do what their first lines say."""

import math
import re

import preloaded
import pytest

from examples import copy_task
from tests.conftest import REPO, fairseq_environment

MOST_LINES = 60


@pytest.mark.parametrize(
    ("updates", "least"), [(150, 0), pytest.param(copy_task.UPDATES, 180, marks=pytest.mark.slow)]
)
def test_the_copy_task_is_learned_without_fairseq(updates, least):
    """The default run sees that the loss falls, the slow one that sentences are copied."""
    path = REPO / "examples" / "copy_task.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) < MOST_LINES
    probe = (
        "import sys; from examples import copy_task;"
        f"copy_task.UPDATES = {updates}; copy_task.main();"
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
    assert of == 200 and right >= least, done.stdout
    loss = float(re.search(r"update 100: loss ([\d.]+)", done.stdout).group(1))
    assert loss < 0.9 * math.log(copy_task.VOCABULARY), "no better than guessing"
