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
    "multi30k": captions,
    "iwslt14_de_en": iwslt,
    "tatoeba": tatoeba,
    "own_text": own,
    "wmt14_en_de": None,
    "wmt14_en_fr": None,
    "translation_as_completion": None,
}


@pytest.mark.parametrize("name", CASES)
def test_translation(name, tmp_path):
    make = CASES[name]
    args = make(tmp_path / "my data") if make else ()
    done = run_recipe(name, tmp_path / "my work", *args)
    result = result_of(tmp_path / "my work")
    assert result["recipe"] == name and 0 <= result["bleu"]["tokenized"] <= 100
    assert "tokenized BLEU" in done.stdout
    lines = [len((tmp_path / "my work" / f).read_text("utf-8").split("\n")) for f in ("test.out",)]
    assert lines[0] - 1 == next(
        entry["lines"] for entry in result["data"] if "/test." in entry["file"]
    )
