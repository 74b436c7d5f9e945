"""The quickstart from end to end at --scale tiny; cut off, it goes on. Fine-tuning of own text."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.recipes import own, result_of, run_recipe
from tests.support.toy_text import toy_lines
from vaswani_plugin import Translator


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory) -> tuple[subprocess.CompletedProcess, Path]:
    """A finished quickstart."""
    work = tmp_path_factory.mktemp("quick start")
    return run_recipe("quickstart", work), work


def test_quickstart(quickstart):
    done, work = quickstart
    result = result_of(work)
    assert (result["recipe"], result["arch"], result["updates"]) == (
        "quickstart",
        "vaswani_debug",
        20,
    )
    assert done.stdout.count("  source  ") == done.stdout.count("  reference  ") == 10
    assert "BLEU" in done.stdout and (work / "attention.png").stat().st_size > 1000
    lines = toy_lines("en-de/test.en", 10)
    assert [line in done.stdout for line in lines] == [True] * 10
    # The score is that of the bundle's own translations.
    translator = Translator.from_pretrained(work / "model")
    texts = (work / "raw" / "test.en").read_text("utf-8").split("\n")[:5]
    found = [each.text for each in translator.translate(texts, one_sentence=True)]
    assert found == (work / "test.out").read_text("utf-8").split("\n")[:5]


def test_it_goes_on_where_it_was(quickstart):
    _, work = quickstart
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*.pt")}
    run_recipe("quickstart", work)
    assert {path: path.stat().st_mtime_ns for path in work.rglob("*.pt")} == before


def test_a_training_that_was_cut_off_ends_the_same(quickstart, tmp_path):
    """Killed after its checkpoint of update 10, then started again: the same translations."""
    _, whole = quickstart
    work = tmp_path / "cut off"
    shutil.copytree(whole, work)
    for name in ("train", "average", "translate", "score", "bundle", "look"):
        (work / ".steps" / name).unlink()
    shutil.copy(whole / ".steps" / "train", work / ".steps" / "train.begun")
    for path in (work / "checkpoints").glob("*.pt"):
        if path.name not in ("checkpoint1.pt", "checkpoint2.pt"):
            path.unlink()
    (work / "test.out").unlink()
    run_recipe("quickstart", work)
    assert (work / "test.out").read_bytes() == (whole / "test.out").read_bytes()


def test_fine_tuning_keeps_the_pieces(tmp_path):
    """The first model is of a training of a few updates, with fewer states than are averaged."""
    folder = tmp_path / "text"
    run_recipe("own_text", tmp_path / "first", *own(folder), "--", "--max-update", 3)
    model = tmp_path / "first" / "model"
    args = ("--train", folder / "train.en", folder / "train.de", "--init-from", model)
    run_recipe("own_text", tmp_path / "second", *args)
    for name in ("sentencepiece.model", "dict.en.txt"):
        assert (tmp_path / "second" / "model" / name).read_bytes() == (model / name).read_bytes()
