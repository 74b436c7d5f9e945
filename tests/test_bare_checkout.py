"""fairseq's commands with a checkout that was never installed, from another working directory.

The environment holds fairseq and what its metadata asks for, nothing of this plugin's own
requirements; the checkout's path has a blank in it, and there is no PYTHONPATH.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.conftest import PLUGIN, fairseq_environment, write_toy_corpus

SITE = Path(sysconfig.get_paths()["purelib"])
COMMANDS = ("preprocess", "train", "generate")


def requirements_of(name: str, found: set[str]) -> set[str]:
    """Names of a distribution and of all that it needs; torchaudio may be missing, as usual."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in found:
        return found
    try:
        needed = distribution(name).requires or []
    except PackageNotFoundError:
        return found
    found.add(name)
    for text in needed:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            requirements_of(requirement.name, found)
    return found


def link_distribution(name: str, site: Path) -> None:
    """Make what a distribution installed importable from another environment."""
    for entry in {path.parts[0] for path in distribution(name).files or []} - {"..", "__pycache__"}:
        if not (site / entry).exists():
            (site / entry).symlink_to(SITE / entry)


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> Path:
    """The folder of an environment with fairseq's requirements; its commands are in bin/."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    scheme = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=scheme))
    for name in requirements_of("fairseq-fixed", set()):
        link_distribution(name, site)
    for command in COMMANDS:  # as pip writes them
        script = folder / "bin" / f"fairseq-{command}"
        script.write_text(
            f"#!{folder / 'bin' / 'python'}\nimport sys\n"
            f"from fairseq_cli.{command} import cli_main\n"
            "if __name__ == '__main__':\n    sys.exit(cli_main())\n"
        )
        script.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of the package alone."""
    folder = tmp_path_factory.mktemp("check out")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PLUGIN, folder / PLUGIN.name, ignore=ignored)
    return folder


def run(folder: Path, cwd: Path, program: str, *arguments: object) -> subprocess.CompletedProcess:
    """Run a program of an environment's bin/, with nothing of this process's paths."""
    environment = fairseq_environment()
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"):
        environment.pop(name, None)
    return subprocess.run(
        [folder / "bin" / program, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment | {"PATH": os.defpath},
    )


@pytest.mark.parametrize("module", ["vaswani_plugin", "sacremoses", "subword_nmt", "rouge_score"])
def test_the_environment_has_nothing_of_ours(bare, tmp_path, module):
    done = run(bare, tmp_path, "python", "-c", f"import fairseq, {module}")
    assert f"No module named '{module}'" in done.stderr


@pytest.fixture(scope="module")
def data(bare, tmp_path_factory) -> Path:
    """The toy corpus, by this environment's fairseq-preprocess."""
    folder = tmp_path_factory.mktemp("work")
    write_toy_corpus(folder)
    flags = [f"--{split}pref={split}" for split in ("train", "valid", "test")]
    done = run(
        *(bare, folder, "fairseq-preprocess", "--source-lang", "src", "--target-lang", "tgt"),
        *(*flags, "--joined-dictionary", "--destdir", "bin", "--workers", 1),
    )
    assert done.returncode == 0, done.stderr
    return folder / "bin"


@pytest.mark.parametrize("workers", [1, 2], ids=["one", "spawned"])
def test_training_and_translating(bare, checkout, data, tmp_path, workers):
    """Loaders of batches are processes of their own; two workers are spawned, not forked."""
    relative = os.path.relpath(checkout / PLUGIN.name, tmp_path)
    trained = run(
        *(bare, tmp_path, "fairseq-train", data, "--user-dir", relative),
        *("--arch", "vaswani_debug", "--max-tokens", 100, "--max-update", 2, "--cpu"),
        *("--distributed-world-size", workers, "--num-workers", 1, "--save-dir", "saved"),
    )
    assert trained.returncode == 0, trained.stderr
    assert "vaswani_adam" in trained.stdout + trained.stderr
    if workers == 2:
        return  # a checkpoint is the same whoever wrote it
    translated = run(
        *(bare, tmp_path, "fairseq-generate", data, "--user-dir", relative, "--cpu"),
        *("--path", "saved/checkpoint_last.pt", "--max-tokens", 500, "--num-workers", 1),
    )
    assert translated.returncode == 0, translated.stderr
    assert len(re.findall(r"^H-", translated.stdout, re.MULTILINE)) == 60
