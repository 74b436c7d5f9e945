"""The paper as a notebook: its code runs, and the notebook is made from it."""

import json
import math
import os
import re
import subprocess
import sys

import pytest

from tests.conftest import REPO

SCRIPT = REPO / "examples" / "attention_is_all_you_need.py"
NOTEBOOK = SCRIPT.with_suffix(".ipynb")


@pytest.mark.parametrize(
    ("updates", "least"), [(60, 0), pytest.param(500, 0.75, marks=pytest.mark.slow)]
)
def test_it_runs_from_top_to_bottom_without_fairseq(updates, least):
    """Its cells assert that equations by hand and by module agree."""
    probe = (
        f"import runpy, sys; runpy.run_path({str(SCRIPT)!r}); assert 'fairseq' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        env=os.environ | {"MPLBACKEND": "Agg", "UPDATES": str(updates), "VASWANI_BUNDLE": ""},
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert "65,110,016" in done.stdout  # base, as the paper counts
    shares = re.findall(r"without a mistake: (\d+) of 200", done.stdout)
    assert len(shares) == 2 and all(int(right) >= least * 200 for right in shares), done.stdout
    copying, *_, translating = re.findall(r"update \d+: perplexity ([\d.]+)", done.stdout)
    assert float(copying) < 20 and float(translating) < 10, "no better than guessing"
    assert math.isfinite(float(re.findall(r"^ +(-[\d.]+)  ", done.stdout, re.MULTILINE)[-1]))


def test_the_notebook_is_made_from_the_script():
    """In jupytext's percent format. After a change: see CONTRIBUTING.md, "The notebook"."""
    expected = []
    for part in re.split(r"^# %%", SCRIPT.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        mark, _, text = part.partition("\n")
        kind = "markdown" if mark.strip() else "code"
        if kind == "markdown":
            text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        expected.append((kind, text.strip()))
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    made = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert made == expected
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    assert sum("image/png" in str(cell["outputs"]) for cell in code) >= 5
    assert not re.search(r"/home/|/tmp/|/root/", NOTEBOOK.read_text(encoding="utf-8"))
