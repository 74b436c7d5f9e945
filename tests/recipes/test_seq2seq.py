"""recipes/seq2seq.sh: from text to the table."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from tests.support.scripts import ROOT, assert_one_line_error, run_bash
from tests.support.toy_text import write_toy

sys.path.append(str(ROOT / "recipes" / "lib"))

import seq2seq_report

from vaswani_plugin.metrics.published import SEQ2SEQ

SCRIPT = ROOT / "recipes" / "seq2seq.sh"
TINY = ("--scale", "tiny", "--cpu", "--max-update", 15)


def trainings(done: subprocess.CompletedProcess) -> list[list[str]]:
    """The commands of a dry run that train."""
    assert done.returncode == 0, done.stderr
    lines = [shlex.split(line[2:]) for line in done.stderr.split("\n") if line.startswith("+ ")]
    return [line for line in lines if "fairseq-train" in line]


def test_the_published_settings():
    done = run_bash(SCRIPT, "--dry-run", "--gpus", 1, "--work", "/no/such/work")
    found = trainings(done)
    assert len(found) == 6
    assert [line.count("--no-reverse-source") for line in found] == [1, 0, 0, 0, 0, 0]
    for line in found:
        values = dict(zip(line, line[1:], strict=False))
        assert values["--arch"] == "vaswani_seq2seq_lstm"
        assert (values["--optimizer"], values["--lr"], values["--clip-norm"]) == ("sgd", "0.7", "5")
        assert (values["--batch-size"], values["--dropout"]) == ("128", "0")
        assert (values["--constant-epochs"], values["--halving-epochs"]) == ("5", "0.5")
        assert "--sentence-avg" in line and values["--max-update"] == "7.5-EPOCHS"
    assert "--source-rows 160000 --target-rows 80000" in done.stderr
    assert "--beam 12 --lenpen 0" in done.stderr and "vaswani rescore" not in done.stderr


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--epochs", 1], "--epochs 1: must be at least 1.5"),
        (["--arch", "vaswani_tiny"], "--arch vaswani_tiny: must be a vaswani_seq2seq_lstm"),
        (["--seeds", "1,x"], "--seeds 1,x"),
        (["--gpus", 2], "--gpus 2: a batch of 128 sentences is one GPU's"),
        (["--nbest", "/no/such"], "--nbest /no/such: needs valid.nbest"),
        (["--data-bin", "x"], "--data-bin: no option"),
    ],
)
def test_mistaken_options(flags, part):
    assert_one_line_error(run_bash(SCRIPT, "--dry-run", *flags), "seq2seq: error: ", part)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[subprocess.CompletedProcess, Path, Path]:
    """A run on two batches of training text."""
    work, data = (tmp_path_factory.mktemp(name) for name in ("my words", "text"))
    write_toy(data, train=100, valid=10, test=15)
    return run_bash(SCRIPT, *TINY, "--data", data, "--work", work, timeout=1500), work, data


def test_a_whole_run(finished):
    done, work, _ = finished
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads((work / "result.json").read_text(encoding="utf-8"))
    assert (result["recipe"], result["updates"]) == ("seq2seq", 15)
    assert "rescoring" not in result
    for title, value in SEQ2SEQ:
        assert f"| {title}" in done.stdout and f"{value:.2f}" in done.stdout
    ours = f"{result['bleu']['tokenized']:.2f}"
    line = next(x for x in done.stdout.split("\n") if "one LSTM, source reversed" in x)
    assert [cell.strip() for cell in line.split("|")[2:4]] == ["30.59", ours]


def test_its_training_is_sutskevers(finished):
    """The rate that the log prints, update by update; unlike seeds; words beyond the dictionary."""
    import torch

    _, work, _ = finished
    log = (work / "logs" / "reversed-1.log").read_text(encoding="utf-8")
    lines = [line for line in log.split("\n") if "| train | epoch" in line]
    # The log shows the rate that follows an epoch: 5 epochs end with the first halving.
    rates = [float(line.split(" lr ")[1].split()[0]) for line in lines]
    expected = [0.7] * 4 + [0.35, 0.7 / 2**3, 0.7 / 2**5, 0.7 / 2**6]
    assert rates == pytest.approx(expected, rel=0.01)
    models = [
        torch.load(work / "models" / name / "checkpoint_last.pt", weights_only=False)["model"]
        for name in ("reversed-1", "reversed-2")
    ]
    keys = "encoder.embedding.weight", "decoder.embedding.weight", "decoder.projection.weight"
    assert [models[0][key].shape[0] for key in keys] == [200, 200, 200]
    assert not torch.equal(models[0][keys[1]], models[0][keys[2]])
    assert not torch.equal(models[0][keys[0]], models[1][keys[0]])
    source = np.fromfile(work / "data-bin" / "train.en-de.en.bin", dtype="<u2")
    assert (source == 3).any() and source.max() < 200


def test_a_second_run_trains_nothing(finished):
    _, work, data = finished
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file()}
    again = run_bash(SCRIPT, *TINY, "--data", data, "--work", work)
    assert again.returncode == 0 and again.stderr.count("done before") == 7
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_the_lists_of_another_system(finished, tmp_path):
    """Three hypotheses of each sentence: the reference with words lost."""
    _, work, data = finished
    for split in ("valid", "test"):
        lines, text = [], (work / "words" / f"{split}.de").read_text("utf-8")
        for i, line in enumerate(text.split("\n")[:-1]):
            words = line.split()
            for k in (2, 0, 1):
                lines.append(f"{i} ||| {' '.join(words[: len(words) - k])} ||| ||| {-k % 3}\n")
        (tmp_path / f"{split}.nbest").write_text("".join(lines), "utf-8")
    again = run_bash(SCRIPT, *TINY, "--data", data, "--work", work, "--nbest", tmp_path)
    assert again.returncode == 0, again.stderr[-3000:]
    assert again.stderr.count("done before") == 5
    result = json.loads((work / "result.json").read_text(encoding="utf-8"))
    rows = {row["system"]: row for row in result["rescoring"]["rows"]}
    golds = (work / "words" / "test.de").read_text(encoding="utf-8").split("\n")[:-1]
    best = [" ".join(line.split()[:-1]) for line in golds]
    score = sacrebleu.corpus_bleu(best, [golds], tokenize="none", force=True).score
    assert rows["baseline"]["test_bleu"] == pytest.approx(score)
    assert rows["oracle"]["test_bleu"] == pytest.approx(100)
    assert rows["baseline + words"]["test_bleu"] >= score - 1e-6
    weights = [row["weights"] for row in result["even_average"]["rows"] if row["weights"]]
    assert weights[1] == {"score": 0.5, "forwards": 0.5, "words": 0.0}
    assert f" {score:.2f} |" in again.stdout


@pytest.mark.parametrize(
    ("models", "beam", "published", "rescored"),
    [(5, 12, 34.81, 36.5), (2, 12, 33.27, None), (5, 2, 34.5, 36.5), (3, 4, None, None)],
)
def test_an_ensemble_stands_beside_its_like(tmp_path, models, beam, published, rescored) -> None:
    (tmp_path / "rescored").mkdir()
    (tmp_path / "output").mkdir()
    systems = ["baseline", "baseline + words", "baseline + reversed", "baseline + ensemble"]
    rows = [{"system": name, "test_bleu": n} for n, name in enumerate([*systems, "oracle"])]
    for name in ("average", "tuned"):
        (tmp_path / "rescored" / f"{name}.json").write_text(json.dumps({"rows": rows}))
    (tmp_path / "output" / "ensemble.json").write_text('{"tokenized": 7.5}')
    table = {row[0]: row[1:] for row in seq2seq_report.make_rows(tmp_path, models, beam)}
    assert [row[0] for row in table.values() if row[1] == 7.5] == [published]
    assert [row[0] for row in table.values() if row[1] == 3] == [rescored]
    assert list(table)[: len(SEQ2SEQ)] == [title for title, _ in SEQ2SEQ]
    assert table["best of each list (oracle)"] == (45.0, 4, None)
