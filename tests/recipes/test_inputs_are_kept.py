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


@pytest.mark.parametrize(
    ("stage", "folder", "options"),
    [
        ("baseline", "baseline", ["--data", "W/baseline"]),
        ("translate", "output", ["--nbest", "W/output"]),
    ],
)
def test_inputs_of_seq2seq(stage, folder, options, tmp_path):
    """A stage's own variables don't hide what the user named."""
    named = tmp_path / "W" / folder
    named.mkdir(parents=True)
    for split in ("valid", "test"):
        (named / f"{split}.nbest").touch()
    script = ROOT / "recipes" / "seq2seq.sh"
    flags = ["--corpus", "quickstart", "--work", "W", "--cpu", "--dry-run", "--stage", stage]
    done = run_bash(script, *flags, *options, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"W/{folder}, which this recipe empties" in done.stderr, done.stderr
