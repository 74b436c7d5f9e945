"""The paper as a notebook: its code runs, its exercises have answers, a script makes it."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.conftest import REPO

SCRIPT = REPO / "examples" / "attention_is_all_you_need.py"
NOTEBOOK = SCRIPT.with_suffix(".ipynb")
PROBE = """
import math, runpy, sys
names = runpy.run_path(sys.argv[1])
assert "fairseq" not in sys.modules
import torch
from torch.nn.functional import gelu
for number, right, wrong in (
    (1, lambda x: (e := (x - x.max()).exp()) / e.sum(), lambda x: x.exp() / x.exp().sum()),
    (2, lambda n: torch.ones(n, n).tril() - torch.ones(n, n).tril(-3), lambda n: torch.ones(n, n)),
    (3, lambda y: y.flip(1), lambda y: y),
    (4, lambda d, f: 4 * d * d + 2 * d * f + f + 9 * d, lambda d, f: 4 * d * d + 2 * d * f),
    (5, lambda k, w: [[math.cos(k * w), math.sin(k * w)], [-math.sin(k * w), math.cos(k * w)]],
     lambda k, w: [[1.0, 0.0], [0.0, 1.0]]),
    (6, lambda d, w: (w, (d * w) ** -0.5), lambda d, w: (1, d**-0.5)),
    (7, lambda e, v: -(1 - e) * math.log(1 - e) - e * math.log(e / (v - 1)), lambda e, v: 0.0),
    (8, lambda self, x: self.w_2(gelu(self.w_1(x))), names["FeedForward"].forward),
    (9, lambda self, x, y: x + y, names["AddNorm"].forward),
    (10, lambda h, a: max(h, key=lambda p: p[0] / ((5 + p[1]) / 6) ** a), lambda h, a: h[0]),
):
    verdicts = [bool(names["CHECKS"][number](answer)) for answer in (right, wrong)]
    assert verdicts == [True, False], (number, verdicts)
"""


@pytest.mark.parametrize(
    ("updates", "least"), [(20, 0), pytest.param(400, 0.75, marks=pytest.mark.slow)]
)
def test_it_runs_from_top_to_bottom_without_fairseq(updates, least):
    """Its cells assert that equations by hand and by module agree; its checks know answers."""
    environment = {"MPLBACKEND": "Agg", "UPDATES": str(updates), "VASWANI_BUNDLE": ""}
    options = {"capture_output": True, "text": True, "timeout": 900}
    command = [sys.executable, "-c", PROBE, str(SCRIPT)]
    done = subprocess.run(command, env=os.environ | environment, **options)
    assert done.returncode == 0, done.stderr
    assert "65,110,016" in done.stdout  # base, as the paper counts
    for module in ("MultiHeadAttention", "DecoderLayer", "Decoder", "Transformer"):
        assert re.search(rf"^class {module}\(.*:\n    \"\"\"", done.stdout, re.MULTILINE)
    undone = re.findall(r"^exercise (\d+): not done yet", done.stdout, re.MULTILINE)
    assert undone == [*map(str, range(1, 11))]
    (copied,) = re.findall(r"copied without a mistake: (\d+) of 200", done.stdout)
    (bleu,) = re.findall(r"^test: ([\d.]+) BLEU", done.stdout, re.MULTILINE)
    assert int(copied) >= least * 200 and float(bleu) >= least * 80, done.stdout
    copying, *_, translating = re.findall(r"update \d+: perplexity ([\d.]+)", done.stdout)
    assert float(copying) < 28 and float(translating) < 1000, "no better than guessing"


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
    for output in (output for cell in code for output in cell["outputs"]):
        text = "".join(output.get("data", {}).get("text/markdown", ""))
        if shown := re.fullmatch(r"```python\n# (.*?)\n(.*)```", text, re.DOTALL):
            file = REPO / "vaswani_plugin" / shown[1]
            assert shown[2] in file.read_text(encoding="utf-8"), f"{file} has been changed since"
    assert sum("image/png" in str(cell["outputs"]) for cell in code) >= 9
    assert not re.search(r"/home/|/tmp/|/root/|<Axes", NOTEBOOK.read_text(encoding="utf-8"))
    lines = [line for kind, text in made if kind == "markdown" for line in text.split("\n")]
    assert not [line for line in lines if line.count("$") % 2], "a formula goes over a line's end"
