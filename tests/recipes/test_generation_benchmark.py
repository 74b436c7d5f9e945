"""recipes/benchmarks/generation.sh: its commands, and a small run with every engine."""

import json
import sys
from pathlib import Path

import pytest
from trained_bundle import TrainedBundle

from tests.support.scripts import ROOT, run_bash

sys.path.insert(0, str(ROOT / "recipes" / "benchmarks"))

import generation

from vaswani_plugin import processor


def flags_of(command, *names: str) -> list[str]:
    words = [str(word) for word in command.arguments]
    return [words[words.index(name) + 1] for name in names]


def test_a_given_length_is_asked_of_every_engine(tmp_path: Path) -> None:
    args = generation.options().parse_args(["--work", str(tmp_path), "--output-length", "30"])
    for engine in ("stock", "ours-paper", "ours-fairseq"):
        command = generation.fairseq_command(args, engine, "batch", tmp_path)
        asked = flags_of(command, "--min-len", "--max-len-a", "--max-len-b")
        assert asked == ["30", "0", "30"]
    command = generation.ctranslate2_command(args, "ctranslate2-float32", "one", tmp_path)
    assert flags_of(command, "--output-length", "--max-decoding-length") == ["30", "30"]
    args = generation.options().parse_args(["--work", str(tmp_path)])
    command = generation.fairseq_command(args, "stock", "one", tmp_path)
    assert flags_of(command, "--max-len-a", "--max-len-b", "--batch-size") == ["1", "50", "1"]
    assert "--min-len" not in command.arguments


@pytest.mark.parametrize(
    ("bundles", "error"),
    [(["a"], "give --lines too"), (["a", "b/a", "--lines", "x"], "need different names")],
)
def test_bundles_that_can_not_be_measured(capsys, monkeypatch, bundles, error) -> None:
    given = ["--model", "m", "--data-bin", "d", "--bundle", *bundles]
    monkeypatch.setattr(sys, "argv", ["generation.sh", *given])
    with pytest.raises(SystemExit) as found:
        generation.main()
    assert found.value.code == 2 and error in capsys.readouterr().err


@pytest.mark.slow
def test_every_engine_writes_the_length(tmp_path: Path) -> None:
    trained = TrainedBundle(tmp_path)
    options = ["--model", trained.folder / "model.pt", "--data-bin", trained.data]
    options += ["--bundle", trained.folder, "--lines", trained.text / "train.src"]
    options += ["--work", tmp_path / "w", "--mode", "batch", "--repeats", 1, "--threads", 1]
    options += ["--subset", "train", "--output-length", 7]
    options += ["--bf16"] if processor.has_bfloat16() else []
    script = ROOT / "recipes" / "benchmarks" / "generation.sh"
    done = run_bash(script, *options, "--sentences", 24)  # stock leaves out the rest of a multiple
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads((tmp_path / "w" / "result.json").read_text(encoding="utf-8"))
    engines = {"stock", "ours-fairseq", "ours-paper", *generation.QUANTIZATIONS}
    bundle = f"translate-{trained.folder.name}"
    bundles = {bundle, f"{bundle}-bf16"} if processor.has_bfloat16() else {bundle}
    assert result["batch"].keys() == engines | bundles and result["sentences"] == 24
    translated = (tmp_path / "w" / f"batch-{bundle}.txt").read_text(encoding="utf-8")
    right = zip(translated.split("\n")[:-1], trained.lines("train.tgt")[:24], strict=True)
    assert sum(ours == line for ours, line in right) > 20
    for engine in engines:
        path = tmp_path / "w" / f"batch-{engine}.txt"
        if engine in generation.QUANTIZATIONS:
            lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        else:
            lines = list(generation.hypotheses(path).values())
        assert [len(line.split()) for line in lines] == [7] * 24, engine
