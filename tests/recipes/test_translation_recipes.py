"""The translation recipes from end to end at --scale tiny, in folders with blanks in the names."""

import gzip
from pathlib import Path

import pytest

from tests.support import published
from tests.support.recipes import own, result_of, run_recipe
from tests.support.toy_text import toy_lines


def captions(folder: Path) -> tuple:
    """A made-up corpus under the names of Multi30k's files."""
    folder.mkdir()
    for ours, theirs in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr")):
        for language in ("en", "de"):
            lines = toy_lines(f"en-de/{ours}.{language}", 60)
            (folder / f"{theirs}.{language}.gz").write_bytes(gzip.compress(published.plain(lines)))
    return ("--data", folder)


def iwslt(folder: Path) -> tuple:
    """The published archive, of made-up text."""
    published.write_iwslt14(folder, published.toy_text(folder / "text", "de"))
    return ("--data", folder)


def tatoeba(folder: Path) -> tuple:
    """The published archive, of made-up text."""
    published.write_tatoeba(folder, published.toy_text(folder / "text", "de", train=5000))
    return ("--data", folder)


CASES = {
    "wmt14_en_de": None,
    "wmt14_en_fr": None,
    "own_text": own,
    **{"multi30k": captions, "iwslt14_de_en": iwslt, "tatoeba": tatoeba},
    "translation_as_completion": None,
}
UNTIL = {"multi30k": "binarize", "iwslt14_de_en": "binarize", "tatoeba": "binarize"}
UNTIL["translation_as_completion"] = "code"
"""After these steps the recipes do what the others do; their whole runs are slow tests."""


def arguments(name: str, folder: Path) -> tuple:
    make = CASES[name]
    return make(folder / "my data") if make else ()


@pytest.mark.parametrize("name", UNTIL)
def test_data_of_its_own(name, tmp_path):
    """The text that a recipe makes of its corpus has as many lines on both sides."""
    work = tmp_path / "my work"
    run_recipe(name, work, *arguments(name, tmp_path), "--until", UNTIL[name])
    assert (work / "data-bin").is_dir() and not (work / "checkpoints").exists()
    for split in ("train", "valid", "test"):
        sides = list((work / "raw" if "completion" in name else work / "bpe").glob(f"{split}.*"))
        counts = {len(path.read_bytes().split(b"\n")) - 1 for path in sides}
        assert len(sides) == 2 and len(counts) == 1 and counts.pop() > 10


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in UNTIL else []) for n in CASES],
)
def test_translation(name, tmp_path):
    work = tmp_path / "my work"
    done = run_recipe(name, work, *arguments(name, tmp_path))
    result = result_of(work)
    assert result["recipe"] == name and 0 <= result["bleu"]["tokenized"] <= 100
    assert "tokenized BLEU" in done.stdout and "at most" in done.stderr
    if name == "own_text":
        assert "still falling: the same command with --continue 40 goes on" in done.stdout
    lines = len((work / "test.out").read_text("utf-8").split("\n")) - 1
    assert lines == next(each["lines"] for each in result["data"] if "/test." in each["file"])
