"""corpus.sh's downloads: sums that are kept, changes that are refused. From file:// addresses."""

import gzip
import hashlib
from pathlib import Path

import pytest

from tests.support.scripts import ROOT, run_bash

RECIPE = """#!/usr/bin/env bash
set -euo pipefail
recipe=made-up
source "{root}/recipes/lib/translation.sh"
archives=(train.en.gz train.de.gz valid.en.gz valid.de.gz test.en.gz test.de.gz)
archive_urls() {{ echo "file://{folder}/gone/$1"; echo "file://{folder}/$1"; }}
archive_sum() {{ if [[ "$1" == "${{PUBLISHED%% *}}" ]]; then echo "${{PUBLISHED#* }}"; fi; }}
recipe_defaults() {{ check_translation_options; }}
main_recipe "$@"
"""
FILES = [f"{split}.{lang}.gz" for split in ("train", "valid", "test") for lang in ("en", "de")]


@pytest.fixture
def server(tmp_path) -> Path:
    """The folder that is downloaded from."""
    folder = tmp_path / "server"
    folder.mkdir()
    for name in FILES:
        (folder / name).write_bytes(gzip.compress(f"{name}\n".encode()))
    return folder


@pytest.fixture
def go(server, tmp_path):
    """Runs the stages fetch and unpack in the work folder `my work`; returns the process."""
    recipe = tmp_path / "made-up.sh"
    recipe.write_text(RECIPE.format(root=ROOT, folder=server))

    def run(*args: object, published: str = "none none"):
        work = tmp_path / "my work"
        args = ("--cpu", "--work", work, "--stop-stage", "unpack", *args)
        return run_bash(recipe, *args, PUBLISHED=published)

    return run


def digest(path: Path) -> str:
    """sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_sums_of_the_first_download_are_kept(go, server, tmp_path):
    done = go()
    assert done.returncode == 0, done.stderr
    download = tmp_path / "my work" / "download"
    lines = [f"{digest(server / name)}  {name}\n" for name in FILES]
    assert (download / "SHA256SUMS").read_text() == "".join(lines)
    assert all((download / name).read_bytes() == (server / name).read_bytes() for name in FILES)
    assert (tmp_path / "my work" / "raw" / "valid.de").read_text() == "valid.de.gz\n"
    assert go().stderr.count("done before") == 2


def test_another_file_is_refused_later(go, server, tmp_path):
    assert go().returncode == 0
    work = tmp_path / "my work"
    before = digest(server / "train.en.gz")
    (server / "train.en.gz").write_bytes(gzip.compress(b"other\n"))
    (work / "download" / "train.en.gz").unlink()
    (work / ".stages" / "fetch").unlink()
    done = go()
    assert done.returncode != 0
    assert f"expected {before}" in done.stderr
    assert "stage fetch ended with exit code" in done.stderr
    assert not (work / "download" / "train.en.gz").exists()
    assert before in (work / "download" / "SHA256SUMS").read_text()


def test_a_damaged_copy_is_fetched_again(go, server, tmp_path):
    assert go().returncode == 0
    work = tmp_path / "my work"
    (work / "download" / "train.en.gz").write_bytes(b"damaged")
    (work / ".stages" / "fetch").unlink()
    assert go().returncode == 0
    assert (work / "download" / "train.en.gz").read_bytes() == (server / "train.en.gz").read_bytes()


def test_a_published_sum_is_the_one_that_counts(go, server, tmp_path):
    done = go(published=f"test.de.gz {'0' * 64}")
    assert done.returncode != 0 and f"expected {'0' * 64}" in done.stderr
    # The files before it are there, each with its sum: a new start goes on from there.
    sums = (tmp_path / "my work" / "download" / "SHA256SUMS").read_text()
    assert sums.count("\n") == 5 and "test.de.gz" not in sums
    assert go(published=f"test.de.gz {digest(server / 'test.de.gz')}").returncode == 0


def test_an_archive_that_no_address_has(go, server, tmp_path):
    (server / "valid.en.gz").unlink()
    done = go()
    assert done.returncode != 0
    assert str(server / "gone" / "valid.en.gz") in done.stderr and "--data" in done.stderr
