"""A recipe empties no folder in which a file lies that the user named."""

import pytest

from tests.support.scripts import ROOT, run_bash

TEXT = {
    "own_text": ["--train", "W/raw/train.en", "W/raw/train.de", "--pair", "en-de"],
    "multi30k": ["--data", "W/raw", "--pair", "en-de"],
    "parsing": ["--data", "gum-treebank", "--also", "W/trees/also.trees"],
}


@pytest.mark.parametrize("recipe", TEXT)
def test_inputs_in_the_work_folder(recipe, tmp_path):
    names = ["raw/train.en", "raw/train.de", "trees/also.trees"]
    names += [
        f"raw/{split}.{side}" for split in ("val", "test_2016_flickr") for side in ("en", "de")
    ]
    files = [tmp_path / "W" / name for name in names]
    files += [tmp_path / "gum-treebank" / f"{split}.trees" for split in ("train", "valid", "test")]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("(S (NN a))\n" if file.suffix == ".trees" else "a line\n")
    script = ROOT / "recipes" / f"{recipe}.sh"
    for more in (["--dry-run"], []):
        done = run_bash(script, *TEXT[recipe], "--work", "W", "--cpu", *more, cwd=tmp_path)
        assert done.returncode == 1, done.stderr
        folder = "trees" if recipe == "parsing" else "raw"
        assert f"W/{folder}, which this recipe empties" in done.stderr, done.stderr
        assert "give another --work" in done.stderr
        assert all(file.is_file() for file in files)
