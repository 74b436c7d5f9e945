"""recipes/ancestors.sh: all its models from end to end on a made corpus, restarts, the table."""

import argparse
import csv
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import sacrebleu
import torch
from fairseq import tasks
from fairseq_flags import training_config

from tests.conftest import write_toy_corpus
from tests.support.scripts import ROOT, assert_one_line_error, quick_environment, run_bash

sys.path.insert(0, str(ROOT / "recipes" / "lib"))

import ancestors_report
import ancestors_train
from ancestors_models import MODELS, Settings, Training, choose_models, trainings_of
from trainings import execute as run_command

from vaswani_plugin.errors import UserError

SCRIPT = ROOT / "recipes" / "ancestors.sh"
NAMES = ["seq2seq", "attention", "convolution", "transformer"]
SETTINGS = {"budget_seconds": 0, "max_update": 4, "points": 2, "max_tokens": 200}
SETTINGS |= {"warmup_updates": 2, "threads": 1, "gpus": 0}
PARALLEL = 2


@pytest.fixture(scope="module")
def data_bin(toy_data_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Binarized data as a recipe leaves them: beside raw/ and tok/."""
    folder = tmp_path_factory.mktemp("prepared")
    for name in ("raw", "tok"):
        (folder / name).mkdir()
        write_toy_corpus(folder / name)
    shutil.copytree(toy_data_bin, folder / "data-bin")
    return folder / "data-bin"


def flags(work: Path, data_bin: Path, seeds: str = "1,2") -> list[str]:
    options = SETTINGS | {"work": work, "data_bin": data_bin, "data_key": "d", "seeds": seeds}
    options |= {"parallel": PARALLEL}
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]


def arguments(work: Path, data_bin: Path) -> argparse.Namespace:
    given = {"work": work, "data_bin": data_bin, "data_key": "d", "parallel": PARALLEL}
    return argparse.Namespace(**given, **SETTINGS)


def call(module, monkeypatch: pytest.MonkeyPatch, *argv: str) -> None:
    monkeypatch.setattr(sys, "argv", [module.__name__, *argv])
    module.main()


@pytest.fixture(scope="module")
def finished(data_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list]:
    """All but `forwards`, four updates each: the work folder, and the commands that ran."""
    work, commands = tmp_path_factory.mktemp("my ancestors"), []

    def execute(command: list[str], output: Path, environment: dict[str, str]) -> None:
        commands.append(command)
        run_command(command, output, environment)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", quick_environment()["PATH"])
        patch.setattr(ancestors_train, "execute", execute)
        call(ancestors_train, patch, *NAMES, *flags(work, data_bin, seeds="1"))
        call(ancestors_report, patch, *flags(work, data_bin, seeds="1"), "--title=toy")
    return work, commands


def test_all_models_from_end_to_end(finished: tuple) -> None:
    work, commands = finished
    # A training and a translation for each of two points, and the test set.
    assert len(commands) == 4 * (2 + 2 + 1)
    result = json.loads((work / "result.json").read_text(encoding="utf-8"))
    assert [line["model"] for line in result["rows"]] == NAMES
    for line in result["rows"]:
        assert [point["updates"] for point in line["points"]] == [2, 4]
        seconds = [0, *(point["seconds"] for point in line["points"])]
        assert seconds == sorted(set(seconds)) and line["seconds"] == seconds[-1]
        assert line["updates"] == 4 and line["ppl"] == line["points"][-1]["ppl"] > 1
        assert line["sentences_per_second"] > 0 and line["tokens_per_second"] > 0
        assert sum(bucket["sentences"] for bucket in line["by_length"]) == 60
        assert sum(bucket["sentences"] for bucket in line["by_rarest_word"]) == 60
    assert (work / "ancestors.png").read_bytes().startswith(b"\x89PNG")


def test_the_ladder_and_the_sweep_have_their_flags() -> None:
    ladder = [model.name for model in choose_models([])]
    assert ladder[1:7] == ["seq2seq", "both-ways", "mean", "additive", "attention", "scaled"]
    kinds = [model.flags[-1] for model in choose_models(ladder[2:7])]
    assert kinds == ["none", "mean", "additive", "dot", "scaled-dot"]
    sweep = choose_models(["sweep"])
    found = {(model.flags[3], model.flags[5]) for model in sweep}
    assert found == {(d_k, s) for d_k in ("8", "32", "128", "512") for s in ("sqrt", "none")}
    costs = {model.name: model.count(1000, 5, 5) for model in sweep}
    assert (
        costs["unscaled-512"] > 2 * costs["scaled-8"] and costs["scaled-8"] == costs["unscaled-8"]
    )


def test_convolutions_are_counted() -> None:
    """By hand: into the embedding's width and back, 128 channels, half of the 256 are gates."""
    (model,) = choose_models(["convolution"])
    wide, c, s, t = 82, 128, 5, 7
    convolution = 3 * c * 2 * c
    reading = wide * c + 4 * convolution + c * wide
    writing = wide * c + 3 * (convolution + 2 * wide * c + 2 * wide * s) + c * wide + wide * 1000
    assert model.count(1000, s, t) == 2 * (s * reading + t * writing)


def test_one_training_is_not_several(finished: tuple) -> None:
    work, _ = finished
    log = (work / "models" / "attention-1" / "logs" / "train.log").read_text(encoding="utf-8")
    assert log.count("Loaded checkpoint") == 1 and "@ 2 updates" in log
    settings = json.loads((work / "result.json").read_text(encoding="utf-8"))["settings"]
    assert settings == SETTINGS


def test_bleu_is_sacrebleus(finished: tuple, data_bin: Path) -> None:
    work, _ = finished
    lines = (work / "models" / "transformer-1" / "test.txt").read_text(encoding="utf-8").split("\n")
    parts = [line.split("\t") for line in lines if line.startswith("H-")]
    words = [text for _, _, text in sorted(parts, key=lambda part: int(part[0][2:]))]
    expected = (data_bin.parent / "tok" / "test.tgt").read_text(encoding="utf-8").split("\n")[:-1]
    options = {"smooth_method": "none", "tokenize": "none", "force": True}
    reference = sacrebleu.corpus_bleu(words, [expected], **options).score
    row = json.loads((work / "result.json").read_text(encoding="utf-8"))["rows"][-1]
    assert row["tokenized"] == pytest.approx(reference)
    assert row["compound_split"] is None  # of German alone


def test_the_cost_is_that_of_what_was_trained(finished: tuple, data_bin: Path) -> None:
    row = json.loads((finished[0] / "result.json").read_text(encoding="utf-8"))["rows"][0]
    texts = [(data_bin.parent / "tok" / f"train.{side}").read_text() for side in ("src", "tgt")]
    source, target = (sum(len(x.split()) + 1 for x in text.split("\n")[:-1]) for text in texts)
    vocabulary = 4 + len((data_bin / "dict.tgt.txt").read_text().split("\n")) - 1
    # Two LSTMs of 2 layers, 170 wide, and the projection; 2 FLOPs, forward and twice backward.
    layers = 2 * 4 * 170 * (170 + 170)
    once = 6 * (layers * (source + target) + 170 * vocabulary * target)
    assert row["flops"] == pytest.approx(row["epochs"] * once)
    assert [point["flops"] for point in row["points"]] == [row["flops"] / 2, row["flops"]]
    # Four batches of at most 200 padded tokens of 60 sentences of some 6 tokens.
    assert 200 < row["epochs"] * target <= 800


def test_sizes_are_those_of_the_sentences(data_bin: Path) -> None:
    text = (data_bin.parent / "tok" / "train.src").read_text(encoding="utf-8")
    expected = [len(line.split()) + 1 for line in text.split("\n")[:-1]]
    assert ancestors_report.read_sizes(str(data_bin / "train.src-tgt.src")).tolist() == expected


def test_a_cut_off_training_goes_on(finished: tuple, data_bin: Path, tmp_path, monkeypatch) -> None:
    work, _ = finished
    folder = work / "models" / "seq2seq-1"
    before = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    commands = []

    def execute(command: list[str], output: Path, environment: dict[str, str]) -> None:
        commands.append(" ".join(command))
        run_command(command, output, environment)

    monkeypatch.setenv("PATH", quick_environment()["PATH"])
    monkeypatch.setattr(ancestors_train, "execute", execute)
    call(ancestors_train, monkeypatch, *NAMES, *flags(work, data_bin, seeds="1"))
    assert not commands
    # Cut off in the translation of the second point: only what came later is done again.
    (folder / "result.json").unlink()
    (folder / "points" / "2.json").unlink()
    call(ancestors_train, monkeypatch, "seq2seq", *flags(work, data_bin, seeds="1"))
    assert [command.split()[0] for command in commands] == ["fairseq-generate"] * 2
    assert "--gen-subset valid" in commands[0] and "--gen-subset test" in commands[1]
    after = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    speed = "sentences_per_second"
    assert after | {speed: 0} == before | {speed: 0}


def test_a_damaged_record_is_named(tmp_path: Path, data_bin: Path) -> None:
    (training,) = trainings_of(choose_models(["attention"]), [1])
    args = arguments(tmp_path, data_bin)
    points = training.folder(tmp_path) / "points"
    points.mkdir(parents=True)
    (points / "1.json").write_text("{")
    with pytest.raises(UserError, match=r"points/1\.json: not JSON .*: remove it"):
        ancestors_train.reach_point(training, args, 1, {})


def test_other_settings_train_again(tmp_path: Path, data_bin: Path, monkeypatch) -> None:
    commands = []

    def execute(command: list[str], output: Path, environment: dict[str, str]) -> None:
        commands.append(command)
        raise UserError("stop here")

    monkeypatch.setattr(ancestors_train, "execute", execute)
    (training,) = trainings_of(choose_models(["attention"]), [1])
    args = arguments(tmp_path, data_bin)
    folder = training.folder(tmp_path)
    for change, kept in (({}, False), ({}, True), ({"max_tokens": 100}, False)):
        for name, value in change.items():
            setattr(args, name, value)
        with pytest.raises(UserError, match="stop here"):
            ancestors_train.finish(training, args, {})
        assert (folder / "mark").exists() == kept
        (folder / "mark").touch()


def test_the_budget_is_time_or_updates() -> None:
    by_time = Settings(**SETTINGS | {"budget_seconds": 900, "max_update": 0, "points": 6})
    flag, hours = by_time.limit(2)
    assert flag == "--stop-time-hours" and float(hours) * 3600 == pytest.approx(300)
    by_updates = Settings(**SETTINGS | {"max_update": 100, "points": 3})
    assert [by_updates.limit(n)[1] for n in (1, 2, 3)] == ["33", "67", "100"]


def test_training_recipes() -> None:
    settings = Settings(**SETTINGS | {"warmup_updates": 400})
    for model, rate in zip(
        MODELS, (8e-3, 8e-3, 8e-3, 4e-3, 4e-3, 4e-3, 4e-3, 2e-3, 2.5e-3), strict=True
    ):
        given = Training(model, 3).flags(settings)
        factor = float(given[given.index("--lr-factor") + 1])
        # Eq. 3 where both of its branches meet.
        assert factor * model.width**-0.5 * 400**-0.5 == pytest.approx(rate, rel=1e-3)
        assert given[-2:] == ["--seed", "3"]
    assert ["--no-reverse-source" in model.flags for model in MODELS] == [True, *[False] * 8]


def test_each_model_has_each_seed() -> None:
    names = [training.name for training in trainings_of(list(MODELS), [1, 2])]
    assert names[:4] == ["forwards-1", "forwards-2", "seq2seq-1", "seq2seq-2"]
    assert len(names) == len(set(names)) == 2 * len(MODELS)
    with pytest.raises(UserError, match="lstm: no model here; they are forwards seq2seq"):
        choose_models(["lstm"])


def row(model: str, seed: int, bleu: float) -> dict:
    return {"model": model, "title": model.upper(), "seed": seed, "tokenized": bleu}


def test_the_reversal_is_compared_by_seed() -> None:
    lines = [row("forwards", 1, 10.0), row("forwards", 2, 12.0), row("seq2seq", 1, 13.0)]
    lines += [row("seq2seq", 2, 12.5), row("seq2seq", 3, 99.0), row("attention", 1, 20.0)]
    assert ancestors_report.reversal(lines) == {"bleu": {1: 3.0, 2: 0.5}, "mean": 1.75}
    assert ancestors_report.reversal(lines[:2]) == {"bleu": {}, "mean": None}
    text = ancestors_report.summary(lines[:4] + lines[5:])
    assert text.startswith("BLEU forwards 11.0 < seq2seq 12.8 < attention 20.0; reversing")
    assert text.endswith("+1.8 (by seed: +3.0, +0.5)")


def test_the_cost_of_a_score() -> None:
    points = [
        {"bleu": 4.0, "flops": 1e12, "seconds": 60.0},
        {"bleu": 3.0, "flops": 2e12, "seconds": 120.0},
        {"bleu": 11.0, "flops": 3e12, "seconds": 300.0},
    ]
    assert ancestors_report.reached(points, 1, "flops") == pytest.approx(0.25e12)
    assert ancestors_report.reached(points, 5, "flops") == pytest.approx(2.25e12)
    assert ancestors_report.reached(points, 10, "seconds") == pytest.approx(120 + 180 * 7 / 8)
    assert ancestors_report.reached(points, 11, "seconds") == 300
    assert ancestors_report.reached(points, 12, "flops") is None
    lines = [row("seq2seq", 1, 10.0), row("seq2seq", 2, 14.0), row("attention", 1, 20.0)]
    for line, last in zip(lines, (11.0, 6.0, 30.0), strict=True):
        line |= {"ppl": 8.0, "points": [*points[:2], points[2] | {"bleu": last}]}
    lines[2]["points"][2]["bleu"] = 30.0
    cells = [[c.strip() for c in text.split("|")[1:-1]]
             for text in ancestors_report.costs(lines).split("\n")[2:]]  # fmt: skip
    assert cells[0][4:] == [f"{level} BLEU: FLOPs, min" for level in (5, 10, 15, 20, 25, 30)]
    # Standard error of 10 and 14: 2. Only the first seed has reached 10, so the cell is empty.
    assert cells[2] == ["SEQ2SEQ", "2", "8.00 \u00b1 0.00", "12.00 \u00b1 2.00",
                        "2.5e+12, 3", *[""] * 5]  # fmt: skip
    assert cells[3][:4] == ["ATTENTION", "1", "8.00", "20.00"] and cells[3][-1] == "3.0e+12, 5"


def test_all_models_have_as_many_parameters(data_bin: Path) -> None:
    words = data_bin.parent / "words"
    words.mkdir(exist_ok=True)
    for name in data_bin.iterdir():
        if name.name.startswith("dict."):
            text = "".join(f"w{number} 1\n" for number in range(9_996))
            (words / name.name).write_text(text, encoding="utf-8")
    counts = {}
    for model in MODELS:
        cfg = training_config("--task", "vaswani_translation", *model.flags).copy()
        cfg.task.data, cfg.task.source_lang, cfg.task.target_lang = str(words), "src", "tgt"
        built = tasks.setup_task(cfg.task).build_model(cfg.model)
        counts[model.name] = sum(p.numel() for p in built.parameters())
    assert max(counts.values()) <= 1.01 * counts["transformer"]
    assert min(counts.values()) >= 0.96 * counts["transformer"]


def test_the_table(finished: tuple) -> None:
    work, _ = finished
    text = (work / "ancestors.md").read_text(encoding="utf-8")
    assert text.startswith("toy: 4 updates each, 200 tokens a batch, 1 CPU thread(s). BLEU ")
    table = text.split("\n\n")[1].split("\n")
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in table]
    assert cells[0][:2] == ["model", "seed"] and "compound-split" not in cells[0]
    assert [line[0] for line in cells[2:]] == [m.title for m in MODELS if m.name in NAMES]
    with open(work / "ancestors.csv", newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [line["model"] for line in rows] == NAMES
    assert cells[2][2] == f"{int(rows[0]['parameters']):,}"


def test_word_pieces_are_joined_to_words(data_bin: Path, tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "prepared"
    shutil.copytree(data_bin.parent, folder)
    commands = []

    def execute(command: list[str], output: Path, environment: dict[str, str]) -> None:
        commands.append(command)
        if command[0] == "fairseq-generate":
            raise UserError("stop here")
        output.parent.mkdir(parents=True)

    monkeypatch.setattr(ancestors_train, "execute", execute)
    given = ("attention", *flags(tmp_path, folder / "data-bin", seeds="1"))
    for symbol, kind in (("a@@", "subword_nmt"), ("\u2581a", "sentencepiece")):
        (folder / "data-bin" / "dict.tgt.txt").write_text(f"{symbol} 1\n", encoding="utf-8")
        shutil.rmtree(tmp_path / "models", ignore_errors=True)
        with pytest.raises(UserError, match="stop here"):
            call(ancestors_train, monkeypatch, *given)
        assert commands[-1][commands[-1].index("--post-process") + 1] == kind
    # Without the words nothing can be scored: this is said before the first training.
    (folder / "tok" / "test.src").unlink()
    commands.clear()
    with pytest.raises(UserError, match=r"tok/test.src: missing; --data-bin must lie"):
        call(ancestors_train, monkeypatch, *given)
    assert not commands


def test_data_without_their_text(toy_data_bin: Path, tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(UserError, match="test.src: missing; --data-bin must lie in a recipe's"):
        ancestors_report.Corpus(toy_data_bin)
    with pytest.raises(UserError, match="no train.SOURCE-TARGET"):
        ancestors_report.Corpus(tmp_path)


def test_no_training_is_no_table(data_bin: Path, tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(UserError, match="models: no training is finished with these settings"):
        call(ancestors_report, monkeypatch, *flags(tmp_path, data_bin), "--title=toy")


def test_a_log_that_breaks_off(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "train.log").write_text("| INFO | train_inner | num_updates=3\n")
    with pytest.raises(UserError, match="no validation at its end; did the training end"):
        ancestors_train.read_point(tmp_path)


def test_seconds_are_those_of_all_parts(tmp_path: Path) -> None:
    for name in ("logs", "checkpoints"):
        (tmp_path / name).mkdir()
    line = "| valid | epoch 001 | valid on 'valid' subset | ppl 7.5 | num_updates 5\n"
    (tmp_path / "logs" / "train.log").write_text(line)
    # fairseq-train adds the seconds of earlier parts to those that it stores.
    state = {"model": {}, "extra_state": {"previous_training_time": 22.5}}
    torch.save(state, tmp_path / "checkpoints" / "checkpoint_last.pt")
    assert ancestors_train.read_point(tmp_path) == {"updates": 5, "seconds": 22.5, "ppl": 7.5}
    torch.save(state | {"extra_state": {}}, tmp_path / "checkpoints" / "checkpoint_last.pt")
    with pytest.raises(UserError, match="checkpoint_last.pt: no training time"):
        ancestors_train.read_point(tmp_path)


def dry_run(*args: object) -> object:
    # No environment: only what the shell says.
    return run_bash(SCRIPT, *args, "--dry-run", "--cpu", VASWANI_VENV=os.devnull)


def test_the_stages(tmp_path: Path) -> None:
    done = dry_run("--work", tmp_path / "w", "--pair", "de-en", "--seeds", "3,4")
    assert done.returncode == 0, done.stderr
    assert "multi30k.sh --pair de-en --work" in done.stderr and "--scale" not in done.stderr
    assert "--seeds 3\\,4 --budget-seconds 900 --max-update 0 --points 6" in done.stderr
    done = dry_run("attention", "--work", tmp_path / "w", "--scale", "tiny")
    assert "quickstart.sh --seed 1 --scale tiny --work" in done.stderr
    assert "ancestors_train.py attention --work" in done.stderr
    assert "--budget-seconds 0 --max-update 6 --points 2" in done.stderr
    assert not (tmp_path / "w").exists()


def test_bad_options(tmp_path: Path) -> None:
    for options, message in (
        (["--corpus", "wmt14_en_de"], "must be multi30k, tatoeba, quickstart"),
        (["--budget-seconds", 9, "--max-update", 9], "--budget-seconds and --max-update: give one"),
        (["--seeds", "1,x"], "--seeds 1,x: must be whole numbers from 1 on, such as 1,2"),
        (["--max-update", 3, "--points", 4], "--points 4: more than --max-update 3"),
        (["--data-bin", tmp_path], "no binarized data (dict.*.txt) there"),
        (["--parallel", "0"], "--parallel 0: must be a whole number from 1 on"),
    ):
        assert_one_line_error(dry_run("--work", tmp_path / "w", *options), message)


@pytest.mark.slow
def test_the_recipe_on_the_embedded_corpus(tmp_path: Path) -> None:
    options = ("--scale", "tiny", "--cpu", "--seeds", "1", "--work", tmp_path)
    done = run_bash(SCRIPT, *options)
    assert done.returncode == 0, done.stderr[-3000:]
    last = done.stdout.strip().split("\n")[-1]
    assert last.startswith("ancestors, quickstart en-de: BLEU ")
    assert last.endswith(f": {tmp_path}/ancestors.md")
    again = run_bash(SCRIPT, *options)
    assert again.returncode == 0 and again.stderr.count("done before") == 3
