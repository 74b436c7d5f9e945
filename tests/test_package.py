"""What is published: the wheel and the source distribution hold what they need, and run alone."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import PLUGIN, REPO
from vaswani_plugin import __version__

OUTSIDE = (".git", ".venv", "work", "build", "dist", "__pycache__", "*.egg-info", ".ci", ".github")
BUILD = "from setuptools import build_meta as b; import sys; print(getattr(b, sys.argv[1])('.'))"


def call(*command: object, cwd: Path, **environment: str) -> str:
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment
    options = {"capture_output": True, "text": True, "cwd": cwd, "env": environment}
    done = subprocess.run([*map(str, command)], **options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def build(kind: str, folder: Path) -> Path:
    """The file that `build_wheel` or `build_sdist` makes of a folder."""
    return folder / call(sys.executable, "-c", BUILD, kind, cwd=folder).split("\n")[-2]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("package")
    copy = folder / "copy"
    shutil.copytree(REPO, copy, ignore=shutil.ignore_patterns(*OUTSIDE))
    call("tar", "xf", str(build("build_sdist", copy)), cwd=folder)
    (unpacked,) = folder.glob("vaswani_plugin-*")
    for name in ("recipes/quickstart.sh", "data-prep/bpe.py", "uv.lock", "CHANGELOG.md"):
        assert (unpacked / name).is_file()
    return unpacked


@pytest.fixture(scope="module")
def wheel(sdist) -> Path:
    """The wheel, built from the source distribution."""
    return build("build_wheel", sdist)


def test_the_wheel_holds_every_file_of_the_plugin(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    ours = {
        str(path.relative_to(REPO))
        for path in PLUGIN.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {name for name in names if ".dist-info/" not in name} == ours
    assert {Path(name).name for name in names} >= {"LICENSE", "NOTICE", "entry_points.txt"}


def test_one_version(wheel):
    assert wheel.name.startswith(f"vaswani_plugin-{__version__}-")
    for name, line in (("CITATION.cff", f"version: {__version__}"), ("CHANGELOG.md", "## [{}]")):
        lines = (REPO / name).read_text(encoding="utf-8").split("\n")
        assert any(each.startswith(line.format(__version__)) for each in lines), name


def test_the_wheel_runs_away_from_the_checkout(wheel, tmp_path):
    """Unpacked into an empty folder; the packages of the environment serve as its dependencies."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    place = "import vaswani_plugin; print(vaswani_plugin.__file__)"
    found = call(sys.executable, "-c", place, cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert found.strip() == str(tmp_path / "site" / "vaswani_plugin" / "__init__.py")
    command = (sys.executable, "-m", "vaswani_plugin.cli", "archs")
    assert "vaswani_base" in call(*command, cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    version = call(*command[:-1], "--version", cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert version == f"vaswani {__version__}\n"
