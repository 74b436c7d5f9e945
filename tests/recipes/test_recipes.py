"""Every recipe from end to end at --scale tiny, in folders with blanks in their names."""

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import published
from tests.support.scripts import ROOT, run_bash
from tests.support.toy_text import toy_lines, write_toy
from vaswani_plugin import Translator

REAL_DATA = Path(os.environ.get("VASWANI_DATA", ROOT.parent / "shared" / "data"))


def run_recipe(name: str, work: Path, *args: object) -> subprocess.CompletedProcess:
    """Run it to its end."""
    script = ROOT / "recipes" / f"{name}.sh"
    done = run_bash(script, "--scale", "tiny", "--cpu", "--work", work, *args, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def result_of(work: Path) -> dict:
    """What holds of every result.json and its bundle; returns the result."""
    result = json.loads((work / "result.json").read_text(encoding="utf-8"))
    assert result["updates"] > 0 and result["parameters"] > 1000
    assert result["versions"]["torch"] and result["versions"]["fairseq"]
    assert all(entry["lines"] > 0 for entry in result["data"])
    assert "not recorded" not in (work / "model" / "README.md").read_text("utf-8").lower()
    return result


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
    found = [each.text for each in translator.translate(texts)]
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


def own(folder: Path) -> tuple:
    """Two files."""
    folder.mkdir()
    write_toy(folder, train=600)
    return ("--train", folder / "train.en", folder / "train.de")


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


def test_fine_tuning_keeps_the_pieces(tmp_path):
    folder = tmp_path / "text"
    run_recipe("own_text", tmp_path / "first", *own(folder))
    model = tmp_path / "first" / "model"
    args = ("--train", folder / "train.en", folder / "train.de", "--init-from", model)
    run_recipe("own_text", tmp_path / "second", *args)
    for name in ("sentencepiece.model", "dict.en.txt"):
        assert (tmp_path / "second" / "model" / name).read_bytes() == (model / name).read_bytes()


def test_language_model(tmp_path):
    done = run_recipe("lm", tmp_path / "work")
    assert result_of(tmp_path / "work")["ppl"]["results"]
    assert "perplexity" in done.stdout


def test_summaries(tmp_path):
    done = run_recipe("summarization", tmp_path / "work")
    assert result_of(tmp_path / "work")["rouge"]["systems"]
    assert "ROUGE-1" in done.stdout


def test_parsing(tmp_path):
    done = run_recipe("parsing", tmp_path / "work")
    assert "f1" in result_of(tmp_path / "work") and "F1" in done.stdout


def test_sequence_to_sequence(tmp_path):
    """Two seeds are an ensemble, and rescore another system's lists."""
    lists = tmp_path / "lists"
    lists.mkdir()
    for split in ("valid", "test"):
        rows = [
            f"{number} ||| {line} ||| lm= -1 ||| {-place}\n"
            for number, line in enumerate(toy_lines(f"en-de/{split}.de")[:300])
            for place in (1, 2)
        ]
        (lists / f"{split}.nbest").write_text("".join(rows), encoding="utf-8")
    args = ("--pair", "en-de", "--source-rows", 200, "--target-rows", 200, "--nbest", lists)
    done = run_recipe("seq2seq", tmp_path / "work", *args)
    assert "BLEU" in done.stdout
    for name in ("forwards", "reversed", "ensemble"):
        assert (tmp_path / "work" / f"{name}.json").exists()


@pytest.mark.shared_data
@pytest.mark.skipif(not REAL_DATA.is_dir(), reason="needs real corpora: set VASWANI_DATA")
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("multi30k", ("--data", REAL_DATA / "multi30k")),
        ("tatoeba", ("--data", REAL_DATA / "tatoeba-en-de")),
        ("lm", ("--data", REAL_DATA / "wikitext-2")),
        ("parsing", ("--data", REAL_DATA / "craft-treebank")),
    ],
)
def test_on_real_text(name, args, tmp_path):
    run_recipe(name, tmp_path / "work", *args)
    result_of(tmp_path / "work")
