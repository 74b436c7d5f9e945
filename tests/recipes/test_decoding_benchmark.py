"""recipes/benchmarks/decoding.sh: a small run with every engine, and its errors."""

import json
import sys
from pathlib import Path

import pytest
from trained_bundle import TrainedBundle

from tests.support.scripts import ROOT, run_bash

sys.path.insert(0, str(ROOT / "recipes" / "benchmarks"))

import decoding

from vaswani_plugin import processor

SCRIPT = ROOT / "recipes" / "benchmarks" / "decoding.sh"


def test_the_summary_is_the_median_over_ctranslate2s_median() -> None:
    runs = {
        decoding.CTRANSLATE2: [{"batch": 4.0}, {"batch": 1.0}, {"batch": 2.0}],
        "ours-float32": [{"batch": 3.0}, {"batch": 5.0}, {"batch": 100.0}],
    }
    found = decoding.summary(runs, "batch")
    assert found["ours-float32"] == {
        "sentences_per_second": 5.0,
        "spread": [3.0, 100.0],
        "times_ctranslate2": 2.5,
    }
    assert found[decoding.CTRANSLATE2]["times_ctranslate2"] == 1.0


@pytest.mark.slow
def test_every_engine_decodes_the_same_sentences(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    trained = TrainedBundle(tmp_path)
    options = ["--model", trained.folder, "--lines", trained.text / "train.src"]
    options += ["--work", tmp_path / "w", "--output-length", 7, "--repeats", 1, "--threads", 1]
    done = run_bash(SCRIPT, *options, "--sentences", 24, "--single", 3)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads((tmp_path / "w" / "result.json").read_text(encoding="utf-8"))
    engines = {decoding.CTRANSLATE2, "ours-float32"}
    engines |= {"ours-bfloat16"} if processor.has_bfloat16() else set()
    assert result["batch"].keys() == result["one"].keys() == engines
    assert result["sentences"] == 24 and result["output_length"] == 7
    for table in (result["batch"], result["one"]):
        assert all(row["sentences_per_second"] > 0 for row in table.values())
    done = run_bash(SCRIPT, *options, "--sentences", 10**6)
    assert done.returncode == 1
    assert "train.src" in done.stderr and "give --sentences" in done.stderr
