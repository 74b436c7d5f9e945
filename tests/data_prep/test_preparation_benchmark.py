"""recipes/benchmarks/preparation.sh: runs both pipelines, finds their files equal, reports."""

import json
import random

import pytest

from tests.support.scripts import run_bash

SCRIPT = "recipes/benchmarks/preparation.sh"


@pytest.mark.slow
def test_both_pipelines_agree(tmp_path):
    rng = random.Random(5)
    for language in ("en", "de"):
        words = ["".join(rng.choices("abcdefghi", k=rng.randint(1, 8))) for _ in range(300)]
        marks = ["", "", "", ",", ".", "!", "'s", "\u2019s", '"']
        lines = [
            " ".join(rng.choice(words) + rng.choice(marks) for _ in range(rng.randint(1, 15)))
            for _ in range(700)
        ]
        (tmp_path / f"train.{language}").write_text("".join(f"{x}\n" for x in lines), "utf-8")
    done = run_bash(
        SCRIPT, "--data", tmp_path, "--lines", 2000, "--plain-lines", 1000,
        "--operations", 200, "--work", tmp_path / "work",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "work" / "preparation.json").read_text())
    assert result["identical"] and result["distinct_pairs"] == 700
    assert list(result["steps"]) == ["tokenize", "learn", "apply", "binarize"]
    for step in result["steps"].values():
        for whose in ("plain", "ours"):
            assert step[whose]["pairs"] == 2000
            assert step[whose]["cpu_seconds"] > 0
            assert step[whose]["peak_mebibytes"] > 5
    assert "byte-identical" in done.stdout


def test_a_missing_corpus_is_one_line(tmp_path):
    done = run_bash(SCRIPT, "--data", tmp_path, "--work", tmp_path / "work")
    assert done.returncode == 1
    assert done.stderr.startswith("preparation.py: error: --data")
    assert "no train.en[.gz]" in done.stderr and done.stderr.count("\n") == 1
