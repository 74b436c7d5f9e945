"""Language models, summaries, parsing and LSTMs from end to end at --scale tiny."""

import os
from pathlib import Path

import pytest

from tests.conftest import REPO
from tests.support.recipes import result_of, run_recipe
from tests.support.toy_text import toy_lines

REAL_DATA = Path(os.environ.get("VASWANI_DATA", REPO.parent / "shared" / "data"))


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
    """One seed is an ensemble of one, and rescores another system's lists."""
    lists = tmp_path / "lists"
    lists.mkdir()
    for split in ("valid", "test"):
        rows = [
            f"{number} ||| {line} ||| lm= -1 ||| {-place}\n"
            for number, line in enumerate(toy_lines(f"en-de/{split}.de")[:120])
            for place in (1, 2)
        ]
        (lists / f"{split}.nbest").write_text("".join(rows), encoding="utf-8")
    args = ("--pair", "en-de", "--seeds", 1, "--source-rows", 200, "--target-rows", 200)
    done = run_recipe("seq2seq", tmp_path / "work", *args, "--nbest", lists)
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
