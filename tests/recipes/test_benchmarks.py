"""recipes/benchmarks: their arithmetic, what fails, and small runs of each."""

import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from bundle import make_bundle, make_settings

from tests.conftest import REPO, binarize, write_toy_corpus
from tests.support.scripts import run_bash

FOLDER = REPO / "recipes" / "benchmarks"
sys.path[:0] = [str(FOLDER), str(FOLDER / "peers")]

import kernels  # noqa: E402
import layers  # noqa: E402
import measurement  # noqa: E402
import training  # noqa: E402

from vaswani_plugin.errors import UserError  # noqa: E402


def options(*flags: object) -> argparse.Namespace:
    """The options of training.py, not yet checked."""
    parser = training.options(None)
    parser.set_defaults(sides=["stock", "ours"])
    args = parser.parse_args([str(flag) for flag in flags])
    args.data = Path(args.data)
    return args


def make_report(*speeds: float) -> dict:
    """Updates of 2 sentences of 5 source and 10 target tokens, at so many tokens a second."""
    counts = {"source": 10, "target": 20, "sentences": 2, "loss": 3.0}
    rows = [{"seconds": 20 / each, "cpu_seconds": 10 / each, **counts} for each in speeds]
    return {"updates": rows, "peak_bytes": 2**30}


def test_figures_are_those_after_the_warm_up():
    found = training.figures(make_report(1.0, 16.0, 16.0), warm_up=1)
    assert found["tokens_per_second"] == pytest.approx(16)
    assert found["tokens_per_cpu_second"] == pytest.approx(32)
    assert found["peak_mib"] == 1024
    rows = [training.figures(make_report(speed), 0) for speed in (8.0, 4.0, 5.0)]
    expected = {"median": 5.0, "lowest": 4.0, "highest": 8.0}
    assert training.spread(row["tokens_per_second"] for row in rows) == expected


def test_the_power_of_a_layers_time_is_fitted():
    assert layers.fitted_power([8, 16, 64], [3.0, 12.0, 192.0]) == pytest.approx(2)


def test_all_sides_train_the_same_model(tmp_path):
    (tmp_path / "train.en-de.en.idx").touch()
    (tmp_path / "dict.en.txt").touch()
    args = options("--data", tmp_path, "--work", tmp_path / "work", "--precision", "bf16")
    stock, ours = (training.fairseq_flags(args, side, "big") for side in ("stock", "ours"))
    for flag in ("--max-tokens", "--bf16", "--seed", "--lr", "--label-smoothing", "--cpu"):
        assert flag in stock and flag in ours
    for flag, value in (("--encoder-layers", "6"), ("--decoder-ffn-embed-dim", "4096")):
        assert stock[stock.index(flag) + 1] == value
    assert stock[stock.index("--dropout") + 1] == "0.3"
    assert "--user-dir" in ours and "--user-dir" not in stock
    stock = [training.job_of(args, side, "big")["stock"] for side in training.FAIRSEQ[:3]]
    assert stock == [1, 1, 0]


def test_a_command_is_measured(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="bash failed .exit code 3.: no such thing"):
        measurement.measure(["bash", "-c", "echo no such thing >&2; exit 3"])
    until_seen = 'echo $WORD; until [ -e "$SEEN" ]; do sleep .1; done'
    seen, memory = tmp_path / "seen", measurement.session_memory

    def see(session: int) -> int:
        size = memory(session)
        seen.touch()
        return size

    monkeypatch.setattr(measurement, "session_memory", see)
    command = ["bash", "-c", until_seen]
    found = measurement.measure(command, None, tmp_path / "x", WORD="a", SEEN=str(seen))
    assert (tmp_path / "x").read_text() == "a\n" and found.wall > 0 and found.peak > 0


def test_ratios_are_those_of_the_same_round():
    """The machine's speed halves in the second round: no ratio notices."""
    speeds = iter([100, 80, 40, 50, 40, 20])
    cases = {"all": "on", "without a": "b", "plain": "off"}
    table = kernels.compare(cases, 2, lambda _: next(speeds))
    assert table["without a"]["over_all"] == {"median": 0.8, "lowest": 0.8, "highest": 0.8}
    assert table["plain"]["over_all"]["median"] == 0.4 and table["all"]["speed"] == 75


SMALL = ("--max-tokens", 100, "--updates", 2, "--warm-up", 1, "--repetitions", 1, "--threads", 1)
SMALL += ("--sizes", "debug", "--vocabulary", 1000, "--pairs", 200)


def test_training_runs(tmp_path):
    """In the project's own environment, where fairseq has no compiled extensions."""
    done = run_bash(FOLDER / "training.sh", *SMALL, "--work", tmp_path / "a b", "--profile")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "a b" / "result.json").read_text())["sizes"]["debug"]
    assert list(found) == ["stock", "ours"] and done.stdout.count("::copy_") > 1
    for side in found.values():
        # From weights and dropout of its own, each side's loss is near that of a uniform guess.
        assert side["last_loss"]["median"] == pytest.approx(np.log2(1000), rel=0.3)
    batches = [side["tokens_per_update"] for side in found.values()]
    assert batches[0] == batches[1]  # the same ones


@pytest.mark.slow
def test_kernels_run_and_a_side_that_fails_is_named(tmp_path):
    more = ("--sentences", 8, "--kernels", "fused_loss", "--work", tmp_path / "k")
    done = run_bash(FOLDER / "kernels.sh", *SMALL, *more)
    assert done.returncode == 0, done.stderr
    cases = json.loads((tmp_path / "k" / "result.json").read_text())["cases"]
    assert list(cases) == ["debug, training, 1 threads", "debug, decoding, 1 threads"]
    flags = ("--work", tmp_path / "failed", "--ours-flags=--no-such")
    failed = run_bash(FOLDER / "training.sh", *SMALL, *flags)
    assert "ours | failed: " in failed.stdout and "--no-such" in failed.stdout


TRAINING = (
    *("--task", "vaswani_translation", "--arch", "vaswani_debug", "--d-model", "32"),
    *("--max-tokens", "800", "--max-update", "300", "--dropout", "0", "--label-smoothing", "0"),
    *("--lr-scheduler", "fixed", "--lr", "0.004", "--num-workers", "0", "--cpu"),
    *("--disable-validation", "--no-epoch-checkpoints", "--no-progress-bar"),
)
SETTINGS = ["lowercase=false", "normalize_punctuation=false", "tokenizer=none", "subwords=none"]


@pytest.fixture
def trained(tmp_path, run_fairseq) -> Path:
    """A folder with text, binarized data and the bundle of a model that writes it backwards."""
    text, data = tmp_path / "text", tmp_path / "bin"
    text.mkdir()
    write_toy_corpus(text)
    binarize(text, data)
    run = run_fairseq("train", data, *TRAINING, "--save-dir", tmp_path / "saved")
    assert run.returncode == 0, run.stderr
    settings = make_settings("src-tgt", SETTINGS, data)
    make_bundle(tmp_path / "saved" / "checkpoint_last.pt", data, settings, tmp_path / "model")
    return tmp_path


@pytest.mark.slow
def test_every_engine_decodes(trained, tmp_path):
    pytest.importorskip("ctranslate2")
    bundle, text = trained / "model", trained / "text"
    flags = ("--model", bundle / "model.pt", "--data-bin", trained / "bin", "--subset", "train")
    flags += ("--bundle", bundle, "--lines", text / "train.src", "--single", 3)
    flags += ("--work", tmp_path / "w", "--sentences", 24, "--repetitions", 1, "--threads", 1)
    done = run_bash(FOLDER / "decoding.sh", *flags, "--output-length", 7)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads((tmp_path / "w" / "result.json").read_text())
    assert {"stock", "ours", "ctranslate2"} <= result["alone"].keys()
    for row in result["alone"].values():
        assert row["batch_subwords"]["median"] == row["one_subwords"]["median"] == 7
    assert len(result["processes"]) >= 4 and "| search alone |" in done.stdout
    translated = (tmp_path / "w" / "vaswani translate.txt").read_text().split("\n")[:24]
    expected = (text / "train.tgt").read_text(encoding="utf-8").split("\n")[:24]
    assert sum(map(str.__eq__, translated, expected)) > 20


@pytest.mark.slow
def test_a_rehearsal_of_the_gpus_parts(tmp_path):
    done = run_bash(FOLDER / "gpu.sh", "--cpu", tmp_path, timeout=1500)
    assert done.returncode == 0, done.stderr
    report = (tmp_path / "gpu-report.md").read_text(encoding="utf-8")
    for part in ("| debug | ours |", "| search alone |", "skipped"):
        assert part in report and part in done.stdout


def test_a_part_that_fails_is_reported_and_the_others_run(tmp_path):
    stub = 'case "$*" in *training.py*) echo no memory >&2; exit 1;; esac; echo "3 ran"'
    (tmp_path / "timeout").write_text(f"#!/bin/sh\n{stub}\n")
    (tmp_path / "timeout").chmod(0o755)
    path = os.pathsep.join(map(str, (tmp_path, Path(sys.executable).parent, os.environ["PATH"])))
    done = run_bash(FOLDER / "gpu.sh", "--cpu", tmp_path / "work", PATH=path)
    assert done.returncode == 1 and "a part failed" in done.stderr
    report = (tmp_path / "work" / "gpu-report.md").read_text()
    assert "**Failed**: no memory" in report and report.count("3 ran") == 3
    assert report.count("**Failed**") == 2
