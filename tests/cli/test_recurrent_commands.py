"""Recurrent models: training, generating, and what `vaswani attention` shows of them."""

import json

import pytest
import torch
from toy_bundle import write_toy_bundle

from tests.support.commands import vaswani

ARCHS = ["vaswani_seq2seq_lstm_tiny", "vaswani_attention_lstm_tiny"]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    flags = ("--d-model", "16", "--share-embeddings", "none")
    found = {}
    for arch in ARCHS:
        folder = tmp_path_factory.mktemp(arch)
        found[arch] = write_toy_bundle(folder, model=("--arch", arch, *flags))
    return found


def test_attention_shows_the_one_there_is(bundles, tmp_path):
    given = ["attention", "--model", bundles[ARCHS[1]]]
    given += ["--source", "The tired farmer slept.", "--target", "A cat & a bird!"]
    outputs = [tmp_path / name for name in ("a.png", "a.html", "a.json", "lines.svg")]
    assert vaswani(*given, "--words", "--output", *outputs[:3]).code == 0
    assert vaswani(*given, "--lines", "--output", outputs[3]).code == 0
    assert all(path.stat().st_size for path in outputs)
    found = json.loads(outputs[2].read_text(encoding="utf-8"))["attention"]
    assert list(found) == ["cross"]
    weights = torch.tensor(found["cross"]["weights"])
    assert weights.shape[:2] == (1, 1)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-5, rtol=0)
    done = vaswani(*given, "--kind", "encoder")
    assert "--kind encoder: this model has none; it has cross" in done.error


def test_no_pictures_of_a_model_without_attention(bundles):
    done = vaswani("attention", "--model", bundles[ARCHS[0]], "--source", "A cat.")
    assert "this model has no attention to show" in done.error


def test_training_learns_and_its_checkpoint_generates(run_fairseq, toy_data_bin, tmp_path):
    run = run_fairseq(
        *("train", toy_data_bin, "--arch", ARCHS[1], "--d-model", 32, "--input-feeding"),
        *("--task", "vaswani_translation", "--max-tokens", 300, "--warmup-updates", 10),
        *("--max-epoch", 12, "--num-workers", 0, "--save-dir", tmp_path, "--cpu"),
        *("--no-epoch-checkpoints", "--no-progress-bar", "--log-format", "json"),
    )
    assert run.returncode == 0, run.stderr
    output = (run.stdout + run.stderr).splitlines()
    logs = [line[line.index("{") :] for line in output if '"train_loss"' in line]
    losses = [float(json.loads(line)["train_loss"]) for line in logs]
    assert len(losses) == 12 and losses[-1] < 0.9 * losses[0]
    (report,) = {line.split("| ")[-1] for line in output if "paper defaults in force" in line}
    assert report.endswith("changed: lr_scheduler.warmup_updates=10")
    checkpoint = tmp_path / "checkpoint_last.pt"
    run = run_fairseq(
        *("generate", toy_data_bin, "--task", "vaswani_translation", "--cpu", "--nbest", 2),
        *("--path", f"{checkpoint}:{checkpoint}", "--print-alignment", "--gen-subset", "valid"),
    )
    assert run.returncode == 0, run.stderr
    kinds = [line[:2] for line in run.stdout.splitlines()]
    assert kinds.count("H-") == kinds.count("A-") == 2 * 20
