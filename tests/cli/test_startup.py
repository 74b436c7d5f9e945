"""What needs no model starts without torch and fairseq; `-X importtime` lists what is imported."""

import re
import subprocess
import sys
from pathlib import Path

import preloaded
import pytest
from toy_bundle import write_toy_bundle

from tests.conftest import fairseq_environment
from vaswani_plugin.cli.__main__ import COMMANDS

HEAVY = {"torch", "fairseq", "hydra", "omegaconf"}
FILES = {
    "hyp": "a cat sat .\nthe dog runs .\n",
    "ref": "the cat sat .\na dog runs .\n",
    "trees": "(S (NP (D the) (N cat)) (VP (V sat)))\n",
    "log": '2026 | INFO | train_inner | {"epoch": 1, "loss": "8", "num_updates": "1"}\n',
}
LIGHT = {
    "bleu": ("bleu", "--hypothesis", "hyp", "--reference", "ref"),
    "bleu of words": ("bleu", "--hypothesis", "hyp", "--reference", "ref", "--language", "de"),
    "evalb": ("evalb", "trees", "trees"),
    "rouge": ("rouge", "--hypothesis", "hyp", "--references", "ref"),
    "complexity": ("complexity",),
    "cost": ("cost", "--hours", "3", "--device", "H100"),
    "curves": ("curves", "log"),
}


def imported(folder: Path, *arguments: str) -> set[str]:
    """Top-level packages that a command imports, outside the standard library."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "vaswani_plugin.cli", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env=fairseq_environment(),
    )
    assert done.returncode == 0, done.stderr
    names = re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE)
    assert "vaswani_plugin" in names, "the list was not read"
    return {name.split(".")[0] for name in names} - sys.stdlib_module_names


@pytest.mark.parametrize("name", LIGHT)
def test_commands_without_a_model_are_light(name, tmp_path):
    assert not imported(tmp_path, *LIGHT[name]) & HEAVY


def test_the_listing_imports_nothing_but_the_plugin(tmp_path):
    """It loads the module of every command."""
    assert not imported(tmp_path, "--help") & {*HEAVY, "numpy", "tqdm", "tabulate", "sacrebleu"}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_commands_help_is_light(name, tmp_path):
    assert not imported(tmp_path, name, "--help") & {*HEAVY, "numpy", "tqdm", "tabulate"}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    return write_toy_bundle(tmp_path_factory.mktemp("bundle"))


TORCH_ALONE = {
    "translate": ("translate", "--cpu", "--model", "{bundle}", "hyp"),
    "average": ("average", "--inputs", "{bundle}/model.pt", "--output", "mean.pt"),
    "export": ("export", "--to", "safetensors", "--model", "{bundle}", "--output", "new"),
}


@pytest.mark.parametrize("name", TORCH_ALONE)
def test_these_need_torch_but_not_fairseq(name, bundle, tmp_path):
    (tmp_path / "hyp").write_text(FILES["hyp"], encoding="utf-8")
    program = (
        "import sys; from vaswani_plugin.cli.__main__ import main;"
        "sys.exit(main(sys.argv[1:]) or print(*sys.modules, file=sys.stderr))"
    )
    done = preloaded.run_with_torch(
        *("-c", program, *(word.format(bundle=bundle) for word in TORCH_ALONE[name])),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=fairseq_environment(),
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stderr.split()) & HEAVY == {"torch"}


def test_a_metric_is_light():
    program = "import vaswani_plugin.metrics.bleu, sys; print(sorted(set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=fairseq_environment(),
    )
    assert "'vaswani_plugin.metrics.bleu'" in done.stdout
    assert not any(f"'{name}'" in done.stdout for name in HEAVY)


def test_a_command_with_fairseq_keeps_the_level_of_the_log():
    """Importing fairseq sets it to DEBUG."""
    program = """
import logging, sys
from vaswani_plugin.cli import __main__ as cli, _start
assert cli.main(["archs", "vaswani_debug"]) == 0 and "fairseq" not in sys.modules
_start.start_fairseq()
print(logging.getLogger().level)
"""
    done = preloaded.run_with_torch(
        "-c", program, capture_output=True, text=True, env=fairseq_environment()
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\n30\n") and "1,353,472" in done.stdout
