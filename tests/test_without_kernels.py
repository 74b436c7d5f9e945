"""The kernels could be thrown away: a copy of the project without them passes what concerns them.

Only their folder, their tests and the lines that call them are missing there.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPO, fairseq_environment
from tests.support.commands import SITE, empty_environment

CALLER = "vaswani_plugin/model/build.py"
LINES = (
    "from vaswani_plugin import kernels\n",
    "    kernels.accelerate(model)\n",
    "    found = kernels.packing()\n",
)
TRAINING = (
    *("--arch", "vaswani_debug", "--task", "vaswani_translation", "--cpu", "--seed", "1"),
    *("--max-update", "20", "--max-tokens", "200", "--warmup-updates", "10"),
    *("--no-progress-bar", "--disable-validation"),
)


@pytest.fixture(scope="module")
def plain_tree(tmp_path_factory) -> Path:
    """The project in a folder of its own, without kernels/ and its caller."""
    root = tmp_path_factory.mktemp("plain") / "project"
    for name in ("vaswani_plugin", "data-prep", "tests", "recipes", "examples"):
        if (REPO / name).exists():
            shutil.copytree(REPO / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(REPO / name, root / name)
    shutil.rmtree(root / "vaswani_plugin" / "kernels")
    shutil.rmtree(root / "tests" / "kernels")
    caller = root / CALLER
    text = caller.read_text(encoding="utf-8")
    for line in LINES:
        assert text.count(line) == 1
        text = text.replace(line, "")
    caller.write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """Python without a link to this checkout, whose kernels it would find."""
    return empty_environment(tmp_path_factory.mktemp("empty"))


def run(python: Path, root: Path, *command: object, timeout: float = 600):
    environment = fairseq_environment(PYTHONPATH=f"{root}:{root / 'data-prep'}:{SITE}")
    done = subprocess.run(
        [python, *map(str, command)],
        capture_output=True,
        text=True,
        cwd=root,
        env=environment,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def test_it_trains_and_translates(python, plain_tree, toy_data_bin, tmp_path):
    plugin = plain_tree / "vaswani_plugin"
    common = (toy_data_bin, "--user-dir", plugin)
    run(python, plain_tree, "-m", "fairseq_cli.train", *common, *TRAINING, "--save-dir", tmp_path)
    done = run(
        *(python, plain_tree),
        *("-m", "fairseq_cli.generate", *common, "--path", tmp_path / "checkpoint_last.pt"),
        *("--task", "vaswani_translation", "--gen-subset", "test", "--cpu"),
    )
    assert done.stdout.count("\nH-") + done.stdout.startswith("H-") == 60


@pytest.mark.slow
@pytest.mark.parametrize(
    "tests",
    ["tests/modules tests/fairseq_plugin/models", "tests/search", "tests/fairseq_plugin/tasks"],
)
def test_the_tests_of_everything_else_pass(python, plain_tree, tests):
    run(
        *(python, plain_tree),
        *("-m", "pytest", "-q", "-p", "no:xdist", "-m", "not slow and not gpu", *tests.split()),
        timeout=1800,
    )
