"""What needs no model starts without torch and fairseq; `-X importtime` lists what is imported."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from toy_bundle import write_toy_bundle

from tests.conftest import fairseq_environment
from vaswani_plugin.cli.__main__ import COMMANDS

HEAVY = {"torch", "fairseq", "hydra", "omegaconf"}
LIBRARIES = {*HEAVY, "numpy", "tqdm", "tabulate", "sacrebleu", "nltk", "matplotlib"}
TEXT = "a cat sat .\nthe dog runs .\n"
TREE = "(S (NP (D the) (N cat)) (VP (V sat)))\n"


def imported(folder: Path, *arguments: str) -> set[str]:
    """Top-level packages that a command imports, outside the standard library."""
    for name, text in {"text": TEXT, "trees": TREE}.items():
        (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "vaswani_plugin.cli", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env=fairseq_environment(),
    )
    assert done.returncode == 0, done.stderr
    names = re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE)
    assert "vaswani_plugin" in names, "the list was not read"
    return {name.split(".")[0] for name in names} - sys.stdlib_module_names


@pytest.mark.parametrize(
    "line",
    [
        "bleu --hypothesis text --reference text --language de",
        "evalb trees trees",
        "complexity",
        "cost --hours 3 --device H100",
    ],
)
def test_commands_without_a_model_are_light(line, tmp_path):
    assert not imported(tmp_path, *line.split()) & HEAVY


@pytest.mark.parametrize("module", [None, *sorted(set(COMMANDS.values()))])
def test_help_imports_nothing_but_the_plugin(module, tmp_path):
    """The help of a command of each module, and the list of commands."""
    command = [name for name, place in COMMANDS.items() if place == module][:1]
    assert not imported(tmp_path, *command, "--help") & LIBRARIES


@pytest.mark.parametrize(
    "line",
    [
        "average --inputs {bundle}/model.pt --output mean.pt",
        "archs vaswani_tiny",
    ],
)
def test_these_need_torch_but_not_fairseq(line, tmp_path):
    bundle = write_toy_bundle(tmp_path)
    assert imported(tmp_path, *line.format(bundle=bundle).split()) & HEAVY == {"torch"}
