"""recipes/benchmarks/training: tiny runs, their arithmetic, and bad flags."""

import json
import sys
from pathlib import Path

import fairseq
import numpy as np
import pytest
from fairseq.data import data_utils
from fairseq.data.dictionary import Dictionary

from tests.conftest import REPO
from tests.support.scripts import assert_one_line_error, run_bash

sys.path.insert(0, str(REPO / "recipes" / "benchmarks"))

import matrix_rate  # noqa: E402
import training  # noqa: E402
import training_runs  # noqa: E402

from vaswani_plugin.errors import UserError  # noqa: E402
from vaswani_plugin.figures.flops import forward_flops, row_settings

LENGTHS = ("source", "target", "source_pairs", "target_pairs", "cross_pairs", "predicted")


def make_report(speeds: list[float], peak: int = 2**30) -> dict:
    """Updates of one sentence of 10 source and 20 target tokens, at so many tokens a second."""
    update = dict(zip(LENGTHS, (10, 20, 100, 400, 200, 20), strict=True)) | {"padded": 40}
    parts = {name: 0.0 for name in training.PARTS} | {"forward": 0.25, "backward": 0.5}
    return {
        "updates": [
            {
                "wait": 0.1 * 20 / speed,
                "seconds": 0.9 * 20 / speed,
                "cpu_seconds": 0.5 * 20 / speed,
                "parts": parts,
                "loss": 3.0,
                **update,
            }
            for speed in speeds
        ],
        "peak_bytes": peak,
        "libraries_bytes": 2**28,
    }


def test_the_warm_up_does_not_count() -> None:
    found = training.figures(make_report([1.0, 16.0, 16.0]), warm_up=1)
    assert found["tokens_per_second"] == pytest.approx(16)
    assert found["tokens_per_cpu_second"] == pytest.approx(32)
    assert found["padded_percent"] == pytest.approx(25)
    assert (found["peak_mib"], found["libraries_mib"]) == (1024, 256)
    parts = training.milliseconds_by_part(make_report([1.0, 16.0, 16.0]), warm_up=1)
    assert (parts["forward"], parts["backward"], parts["optimizer"]) == (250, 500, 0)
    assert parts["rest"] == pytest.approx(1000 * (0.9 * 20 / 16 - 0.75))
    assert parts["data"] == pytest.approx(125)


def test_medians_and_spread() -> None:
    reports = [make_report([speed]) for speed in (8.0, 4.0, 5.0)]
    speed = training.summary(reports, 0)["tokens_per_second"]
    assert speed == {"median": 5.0, "lowest": 4.0, "highest": 8.0}


def test_the_floor_is_the_matrix_products(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(matrix_rate, "matrix_rate", lambda device, dtype: 1e9)
    (tmp_path / "dict.de.txt").write_text("".join(f"w{n} 1\n" for n in range(96)))
    setting = training_runs.Setting(tmp_path, 100, 2, 1)
    found = training.floor(make_report([1.0, 2.0, 3.0]), "tiny", setting)
    flops = 3 * forward_flops(*row_settings("vaswani_tiny"), 100, (1, 10, 20))
    assert found["flops_per_update"] == pytest.approx(flops)
    assert found["milliseconds_per_update"] == pytest.approx(1000 * flops / 1e9)
    assert found["tokens_per_second"] == pytest.approx(20 * 1e9 / flops)


FAIRSEQ = Path(fairseq.__file__).parent


@pytest.mark.skipif(
    not list(FAIRSEQ.glob("data/data_utils_fast*.so")),
    reason="stock fairseq trains only with its compiled extensions",
)
def test_both_sides_are_compared_and_finished_runs_kept(
    toy_data_bin: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(matrix_rate, "SIZES", (128,))
    flags = ["--data", str(toy_data_bin), "--work", str(tmp_path), "--max-tokens", "100"]
    flags += ["--updates", "2", "--warm-up", "1", "--repetitions", "1", "--threads", "1"]
    training.main(flags)
    first = json.loads((tmp_path / "training.json").read_text())
    found = first["sizes"]["tiny"]
    for side in training_runs.SIDES:
        assert found[side]["tokens_per_second"]["median"] > 0
        parts = found[side]["milliseconds_by_part"]
        assert parts["forward"] > 0 and parts["backward"] > 0 and parts["optimizer"] > 0
        assert 100 < found[side]["libraries_mib"]["median"] < found[side]["peak_mib"]["median"]
    # From weights and dropout of its own, each side's loss is near that of a uniform guess.
    guess = np.log2(sum(1 for _ in (toy_data_bin / "dict.src.txt").open()) + 4)
    assert found["stock"]["last_loss"]["median"] == pytest.approx(guess, rel=0.2)
    assert found["ours"]["last_loss"]["median"] == pytest.approx(guess, rel=0.2)
    assert "ours over stock" in capsys.readouterr().out

    reports = {
        side: json.loads((tmp_path / "runs" / f"tiny-fp32-cpu-{side}-1.json").read_text())
        for side in training_runs.SIDES
    }
    for stock, ours in zip(*(reports[side]["updates"] for side in reports), strict=True):
        assert {key: stock[key] for key in LENGTHS} == {key: ours[key] for key in LENGTHS}
    monkeypatch.setattr(training_runs.subprocess, "run", None)  # whoever called it would fail
    monkeypatch.setattr(training_runs, "_plugin_digest", lambda: reports["ours"]["key"]["code"])
    training.main(flags)
    assert capsys.readouterr().err.count("done before") == 2
    again = json.loads((tmp_path / "training.json").read_text())
    assert again["sizes"]["tiny"]["ours"] == found["ours"]
    data = next((Path(flags[flags.index("--data") + 1])).glob("train.*.idx"))
    kept = data.read_bytes()
    data.write_bytes(kept + b"x")
    with pytest.raises(TypeError):
        training.main(flags)
    data.write_bytes(kept)
    monkeypatch.setattr(training_runs, "_plugin_digest", lambda: "other code")
    with pytest.raises(TypeError):
        training.main(flags)


def test_synthetic_sentences_are_as_long_as_newstests(tmp_path: Path) -> None:
    folder = training_runs.synthetic_data(tmp_path / "data", 500, sentences=3000)
    dictionary = Dictionary.load(str(folder / "dict.source.txt"))
    assert len(dictionary) == 500
    sides = []
    for language in ("source", "target"):
        data = data_utils.load_indexed_dataset(
            str(folder / f"train.source-target.{language}"), dictionary
        )
        assert len(data) == 3000 and data[0][-1] == dictionary.eos()
        seen = np.concatenate([data[number].numpy() for number in range(3000)])
        assert set(seen) == {dictionary.eos(), *range(dictionary.nspecial, 500)}
        sides.append(data.sizes - 1)
    # Log-normal: the mean is exp(mu + sigma^2 / 2).
    assert sides[0].mean() == pytest.approx(1.25 * np.exp(2.85 + 0.54**2 / 2), rel=0.05)
    assert np.corrcoef(*sides)[0, 1] > 0.85
    assert not list(folder.glob("text*"))
    stamp = (folder / "dict.source.txt").stat().st_mtime_ns
    assert training_runs.synthetic_data(folder, 500) == folder  # made once
    assert (folder / "dict.source.txt").stat().st_mtime_ns == stamp


def test_the_two_sides_differ_in_the_model_alone(tmp_path: Path) -> None:
    setting = training_runs.Setting(tmp_path, 100, 2, 1, precision="bf16")
    stock, ours = (setting.command(side, "big") for side in training_runs.SIDES)
    shared = [flag for flag in ours if flag in stock]
    for flag in ("--max-tokens", "--bf16", "--seed", "--lr", "--label-smoothing", "--cpu"):
        assert flag in shared
    for flag, value in (
        ("--encoder-layers", "6"),
        ("--decoder-layers", "6"),
        ("--encoder-embed-dim", "1024"),
        ("--decoder-ffn-embed-dim", "4096"),
        ("--decoder-attention-heads", "16"),
        ("--dropout", "0.3"),
    ):
        assert stock[stock.index(flag) + 1] == value
    assert "--user-dir" in stock  # fairseq's own bf16 doesn't start
    assert "--user-dir" not in training_runs.Setting(tmp_path, 100, 2, 1).command("stock", "big")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--data", "absent"], "--data absent: no binarized training data"),
        (["--data", "synthetic", "--precision", "fp16"], "--precision fp16"),
        (["--data", "synthetic", "--updates", "0"], "--updates 0: must be at least 1"),
        (["--data", "synthetic", "--threads", "-1"], "--threads -1: must be at least 1"),
        (["--data", "synthetic", "--warm-up", "-1"], "--warm-up -1"),
        (["--data", "synthetic", "--vocabulary", "4"], "--vocabulary 4"),
    ],
)
def test_bad_flags(flags: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        training.main([*flags, "--work", str(tmp_path / "work")])
    assert not (tmp_path / "work").exists()


def test_a_training_that_fails_names_its_log(toy_data_bin: Path, tmp_path: Path) -> None:
    flags = ("--data", toy_data_bin, "--work", tmp_path / "a b", "--ours-flags=--no-such-flag")
    command = ("--repetitions", 1, "--max-tokens", 100, "--updates", 1, "--warm-up", 0)
    setting = training_runs.Setting(toy_data_bin, 100, 1, 0, ours_flags=("--no-such-flag",))
    with pytest.raises(UserError, match=r"logs/x\.log.*--no-such-flag"):
        training_runs.run_training(tmp_path, "x", "ours", "tiny", setting)
    assert not list((tmp_path / "runs").iterdir())
    done = run_bash("recipes/benchmarks/training.sh", *flags, *command, "--threads", 0, cwd=REPO)
    assert_one_line_error(done, "training.py: error: --threads 0")


def test_a_damaged_report_is_named(toy_data_bin: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "x.json").write_text('{"key": ')
    setting = training_runs.Setting(toy_data_bin, 100, 1, 0)
    with pytest.raises(UserError, match=r"runs/x\.json: not JSON .*: remove it"):
        training_runs.run_training(tmp_path, "x", "ours", "tiny", setting)
