"""A checkout that was never installed, used from another working directory without PYTHONPATH.

fairseq's commands get an environment with fairseq and what its metadata asks for, nothing of this
plugin's own requirements; a script of data-prep/ gets one without PyTorch and fairseq. The path of
the checkout has a blank in it.
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

from tests.conftest import PLUGIN, REPO, fairseq_environment, write_toy_corpus

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


def make_environment(folder: Path, *needed: str) -> Path:
    """A virtual environment with these distributions and their requirements alone."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    scheme = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=scheme))
    names: set[str] = set()
    for name in needed:
        requirements_of(name, names)
    for name in names:
        link_distribution(name, site)
    return folder


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> Path:
    """The folder of an environment with fairseq's requirements; its commands are in bin/."""
    folder = make_environment(tmp_path_factory.mktemp("bare"), "fairseq-fixed")
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
    """A copy of the package and of the scripts."""
    folder = tmp_path_factory.mktemp("check out")
    ignored = shutil.ignore_patterns("__pycache__")
    for part in (PLUGIN, REPO / "data-prep"):
        shutil.copytree(part, folder / part.name, ignore=ignored)
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


def test_the_environment_has_nothing_of_ours(bare, tmp_path):
    names = ["vaswani_plugin", "sacremoses", "subword_nmt", "rouge_score", "fairseq"]
    program = f"from importlib.util import find_spec; print(*filter(find_spec, {names}))"
    done = run(bare, tmp_path, "python", "-c", program)
    assert (done.stdout, done.stderr) == ("fairseq\n", "")


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


@pytest.mark.parametrize(
    "workers",
    [pytest.param(1, id="one"), pytest.param(2, id="spawned", marks=pytest.mark.slow)],
)
def test_training_and_translating(bare, checkout, data, tmp_path, workers):
    """One worker's loader of batches is a process of its own; two are spawned, not forked."""
    relative = os.path.relpath(checkout / PLUGIN.name, tmp_path)
    trained = run(
        *(bare, tmp_path, "fairseq-train", data, "--user-dir", relative),
        *("--arch", "vaswani_debug", "--max-tokens", 100, "--max-update", 2, "--cpu"),
        *("--distributed-world-size", workers, "--num-workers", 2 - workers),
        *("--save-dir", "saved", "--disable-validation"),
    )
    assert trained.returncode == 0, trained.stderr
    assert "vaswani_adam" in trained.stdout + trained.stderr
    if workers == 2:
        return  # a checkpoint is the same whoever wrote it
    translated = run(
        *(bare, tmp_path, "fairseq-generate", data, "--user-dir", relative, "--cpu"),
        *("--path", "saved/checkpoint_last.pt", "--gen-subset", "valid", "--num-workers", 1),
    )
    assert translated.returncode == 0, translated.stderr
    assert len(re.findall(r"^H-", translated.stdout, re.MULTILINE)) == 20


def test_scripts_of_data_preparation(checkout, tmp_path):
    """With several workers, too."""
    environment = make_environment(tmp_path / "environment", "subword-nmt", "numpy", "tokenizers")
    (tmp_path / "text").write_text("the cat sat on the mat\n" * 50, encoding="utf-8")
    script = os.path.relpath(checkout / "data-prep" / "bpe.py", tmp_path)
    run_here = (environment, tmp_path, "python")
    assert "No module named 'torch'" in run(*run_here, "-c", "import torch").stderr
    assert "No module named" in run(*run_here, "-c", "import vaswani_plugin").stderr
    learned = run(
        *(*run_here, script, "learn", "--operations", 5, "--output", "codes"),
        *("--input", "text", "--workers", 2),
    )
    assert learned.returncode == 0, learned.stderr
    applied = run(*run_here, script, "apply", "--codes", "codes", "--input", "text")
    assert applied.returncode == 0, applied.stderr
    assert applied.stdout.replace("@@ ", "").split("\n")[0] == "the cat sat on the mat"
