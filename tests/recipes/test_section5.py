"""recipes/section5.sh: all four parts from end to end, restarts, tables and errors."""

import argparse
import json
import math
import os
import sys
from pathlib import Path

import pytest
import sacrebleu
import torch
from fairseq import tasks
from fairseq_flags import training_config

from tests.support.scripts import ROOT, assert_one_line_error, run_bash

sys.path.insert(0, str(ROOT / "recipes" / "lib"))

import section5
import section5_report
from trainings import Devices

RECIPE = ROOT / "recipes" / "section5.sh"
SMALL = ("--scale", "tiny", "--cpu", "--max-tokens", 200)


@pytest.fixture(scope="module")
def finished(toy_data_bin, tmp_path_factory):
    """Averaging on a toy corpus: the process and the work folder."""
    work = tmp_path_factory.mktemp("section 5")
    flags = (*SMALL, "--data-bin", toy_data_bin, "--work", work)
    done = run_bash(RECIPE, "averaging", *flags, cwd=work)
    assert done.returncode == 0, done.stderr[-3000:]
    return done, work


def test_a_part_from_end_to_end(finished) -> None:
    done, work = finished
    result = json.loads((work / "result.json").read_text())
    averaging = result["parts"]["averaging"]
    assert averaging["averaged checkpoints"] == [1, 2, 3, 5, 10]
    (folder,) = (work / "models").iterdir()
    assert folder.name == "smoothing-0.1-seed-1"
    for number, (score,) in zip((1, 2, 3, 5, 10), averaging["BLEU"], strict=True):
        output = folder / "outputs" / f"average-{number}-beam-4-alpha-0.6.txt"
        parts = [line.rstrip("\n").split("\t") for line in output.open(encoding="utf-8")]
        target = {p[0][2:]: p[1] for p in parts if p[0].startswith("T-")}
        found = {p[0][2:]: p[2] for p in parts if p[0].startswith("H-")}
        assert target.keys() == found.keys() and len(target) == 20
        texts = [found[n] for n in target]
        expected = sacrebleu.corpus_bleu(
            texts, [list(target.values())], smooth_method="none", tokenize="none", force=True
        )
        assert score == pytest.approx(expected.score)
    # The mean of ten checkpoints, by hand.
    kept = sorted(
        (folder / "checkpoints").glob("checkpoint_*_*.pt"),
        key=lambda path: int(path.stem.rpartition("_")[2]),
    )
    states = [torch.load(path, weights_only=False)["model"] for path in kept]
    assert len(states) == 10
    mean = torch.load(folder / "outputs" / "average-10.pt", weights_only=False)["model"]
    for name, weight in mean.items():
        values = torch.stack([state[name].double() for state in states])
        torch.testing.assert_close(weight.double(), values.mean(0), atol=1e-6, rtol=1e-5)
    assert (work / "section5.png").read_bytes().startswith(b"\x89PNG")
    assert done.stdout.strip().split("\n")[-1].endswith(f": {work}/section5.md")


def test_translations_are_not_made_again(finished, monkeypatch) -> None:
    work = finished[1]
    monkeypatch.setattr(section5, "execute", None)
    args = arguments(work=work, seeds=[1], max_update=20, beam=4)
    training = section5.smoothed(args, 0.1, 1)
    found = section5.translate(training, args, averaged=5)
    assert (
        found["bleu"]
        == json.loads((work / "result.json").read_text())["parts"]["averaging"]["BLEU"][3][0]
    )
    assert found["length"] > 0


def test_alpha_is_given_to_the_search(monkeypatch, tmp_path) -> None:
    commands = []

    def execute(command, output, environment) -> None:
        commands.append(command)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text("T-0\ta b c d e\nH-0\t-1\ta b c d e f\nD-0\t-1\ta b c d e f\n")

    monkeypatch.setattr(section5, "execute", execute)
    args = arguments(work=tmp_path, data_bin=tmp_path, beam=3)
    found = section5.translate(section5.smoothed(args, 0.1, 7), args, alpha=1.4)
    (command,) = commands
    assert command[command.index("--lenpen") + 1] == "1.4"
    assert command[command.index("--beam") + 1] == "3"
    assert command[command.index("--post-process") + 1] == "sentencepiece"
    assert command[command.index("--path") + 1].endswith("seed-7/checkpoints/checkpoint_last.pt")
    assert found["length"] == 6 / 5
    args.beam = 4  # not the translations of another beam
    section5.translate(section5.smoothed(args, 0.1, 7), args, alpha=1.4)
    assert [command[command.index("--beam") + 1] for command in commands] == ["3", "4"]


@pytest.mark.parametrize("order", section5.ORDERS)
@pytest.mark.parametrize("max_tokens", [12, 70, 100, 500])
def test_batches_are_those_of_a_training(toy_data_bin, order, max_tokens) -> None:
    flags = ("--task", "vaswani_translation", "--arch", "vaswani_debug", "--batch-order", order)
    cfg = training_config(*flags).copy()
    cfg.task.data = str(toy_data_bin)
    task = tasks.setup_task(cfg.task)
    task.load_dataset("train")
    made = task.get_batch_iterator(
        task.dataset("train"), max_tokens=max_tokens, required_batch_size_multiple=8
    )
    assert section5.batches(toy_data_bin, order, max_tokens) == len(made.frozen_batches)


def test_data_without_a_training_set(tmp_path) -> None:
    with pytest.raises(section5.UserError, match="no train.SOURCE-TARGET"):
        section5.batches(tmp_path, "fairseq", 70)


def test_both_orders_see_the_same_number_of_tokens(stand_in, monkeypatch) -> None:
    monkeypatch.setattr(section5, "batches", lambda data, order, size: {"fairseq": 4}.get(order, 5))
    args = arguments(data_bin=None, max_tokens=70)
    columns = section5.order(args)
    assert columns["order of batches"] == ["fairseq", "longer-side"]
    assert columns["updates"] == [100, 125]
    rows = [section5.ordered(args, order, 1) for order in section5.ORDERS]
    assert rows[0] == section5.smoothed(args, 0.1, 1)
    flags = rows[1].flags(argparse.Namespace(arch="vaswani_tiny", max_tokens=70))
    assert flags[flags.index("--batch-order") + 1] == "longer-side"
    text = section5_report.as_markdown("order", columns, 100)
    row = [cell.strip() for cell in text.strip().split("\n")[-1].split("|")[1:-1]]
    means = ["5.30 \u00b1 0.06", "23.00 \u00b1 0.58", "32.00 \u00b1 0.58"]
    assert row == ["longer-side", "125", *means]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> dict[str, argparse.Namespace]:
    """Trainings and translations whose figures follow from their settings."""

    def train(training, args):
        rate = training.factor / math.sqrt(training.warmup)
        return {"ppl": float("inf") if rate > 1 else 5 + training.smoothing + training.seed / 10}

    def translate(training, args, averaged=1, alpha=0.6):
        bleu = 20 + 10 * training.smoothing + training.seed + averaged - 1
        return {"bleu": bleu, "length": 1.0}

    monkeypatch.setattr(section5, "train", train)
    monkeypatch.setattr(section5, "translate", translate)


def arguments(**changes: object) -> argparse.Namespace:
    plain = {"max_update": 100, "warmup_updates": 16, "lr_factor": 0.5, "seeds": [1, 2, 3]}
    plain["post_process"] = "sentencepiece"
    plain["devices"] = Devices(parallel=2, gpus=0, threads=1)
    return argparse.Namespace(**plain | changes)


def test_means_and_standard_errors(stand_in, tmp_path) -> None:
    columns = section5.smoothing(arguments())
    assert columns["PPL"][0] == pytest.approx([5.1, 5.2, 5.3])
    rows = section5_report.as_markdown("smoothing", columns, 100).split("\n")[4:7]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    # The deviation of 1, 2, 3 is 1, so the standard error is 1 / sqrt(3).
    assert cells[0] == ["0", "5.20 \u00b1 0.06", "22.00 \u00b1 0.58"]
    assert cells[2] == ["0.2", "5.40 \u00b1 0.06", "24.00 \u00b1 0.58"]
    assert "smoothing: best BLEU 24.0 at label smoothing 0.2" in section5_report.summary(
        {"smoothing": columns}
    )


def test_a_divergence_is_told(stand_in, tmp_path) -> None:
    columns = section5.warmup(arguments())
    assert len(columns["PPL"]) == len(section5.WARMUPS) * len(section5.FACTORS)
    # Eq. 3: a quarter of the warm-up doubles the highest rate.
    rates = dict(zip(zip(columns["warm-up"], columns["factor"], strict=True),
                     columns["highest rate / default"], strict=True))  # fmt: skip
    assert rates[16, 0.5] == 1 and rates[4, 0.5] == 2 and rates[1, 2.0] == 16
    text = section5_report.as_markdown("warmup", columns, 100)
    assert text.count("diverged") == sum(values == [math.inf] for values in columns["PPL"]) > 0
    orders = {"order of batches": ["a", "b"], "PPL": [[5.0], [6.0]], "BLEU": [[20.0], [21.0]]}
    section5_report.draw({"warmup": columns, "order": orders}, 100, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_equal_points_of_the_grid_are_trained_once(monkeypatch) -> None:
    """A sixteenth and a quarter of four updates of warm-up are both one update."""
    trained = []
    monkeypatch.setattr(section5, "train", lambda each, args: trained.append(each) or {"ppl": 5.0})
    columns = section5.warmup(arguments(warmup_updates=4))
    assert len(columns["PPL"]) == 12 and len(trained) == len(set(trained)) == 8
    rates = zip(
        columns["warm-up"], columns["factor"], columns["highest rate / default"], strict=True
    )
    assert {rate for updates, factor, rate in rates if (updates, factor) == (1, 0.5)} == {2}


def test_bad_options(tmp_path) -> None:
    def dry_run(*args: object):
        return run_bash(RECIPE, *args, "--dry-run", VASWANI_VENV=os.devnull)

    for flags, message in (
        (["--seeds", "a"], "--seeds a: must be whole numbers from 1 on, such as 1,2"),
        (["--max-update", "5"], "--max-update 5: at least 20, one for each checkpoint"),
        (["--corpus", "nonsense"], "--corpus nonsense: must be multi30k, tatoeba"),
        (["--data-bin", tmp_path], "no binarized data (dict.*.txt) there"),
    ):
        assert_one_line_error(dry_run("--work", tmp_path / "w", *flags), message)


def test_an_unknown_part_is_told(toy_data_bin, tmp_path) -> None:
    done = run_bash(
        RECIPE, "nonsense", *SMALL, "--data-bin", toy_data_bin, "--work", tmp_path, cwd=tmp_path
    )
    assert done.returncode != 0
    assert (
        "nonsense: no part; the parts are smoothing averaging penalty order warmup" in done.stderr
    )
    assert not (tmp_path / "models").exists()


def test_a_folder_without_dictionaries(tmp_path: Path) -> None:
    with pytest.raises(section5.UserError, match="no dict"):
        section5.vocabulary_size(tmp_path)
