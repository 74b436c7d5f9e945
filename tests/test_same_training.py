"""From the same weights, over the same batches, our training is that of fairseq's stock model."""

import json

import pytest

from tests.conftest import STOCK_TINY, run_module

UPDATES = 50
SHARED = (
    *("--max-tokens", "100", "--num-workers", "0", "--cpu", "--seed", "3", "--dropout", "0"),
    *("--label-smoothing", "0.1", "--lr-scheduler", "fixed", "--lr", "0.003", "--clip-norm", "1"),
    *("--no-progress-bar", "--log-format", "json", "--log-interval", "1"),
    *("--max-update", str(UPDATES), "--disable-validation"),
)
STOCK = (
    *(*STOCK_TINY, "--criterion", "label_smoothed_cross_entropy"),
    *("--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-9"),
)
OURS = (
    *("--arch", "vaswani_debug", "--encoder-layers", "1", "--decoder-layers", "1"),
    *("--d-model", "16", "--d-ff", "16", "--heads", "2"),
    *("--positions", "sinusoidal-fairseq", "--layer-norm-eps", "1e-5"),
    *("--task", "vaswani_translation"),
)


def losses(log: str) -> list[float]:
    """The loss of every update, in bits, with three decimals."""
    lines = [line.split("| train_inner | ")[1] for line in log.split("\n") if "train_inner" in line]
    return [float(json.loads(line)["loss"]) for line in lines]


def test_every_loss_is_equal(toy_data_bin, stock_checkpoint, run_fairseq, tmp_path):
    """To the last update: so the weights are, too."""
    imported = run_module(
        "vaswani_plugin.cli", "import", "--checkpoint", stock_checkpoint,
        "--data-bin", toy_data_bin, "--output", tmp_path / "start.pt",
    )  # fmt: skip
    assert imported.returncode == 0, imported.stderr
    found = []
    for flags, start in ((STOCK, stock_checkpoint), (OURS, tmp_path / "start.pt")):
        places = ("--save-dir", tmp_path, "--finetune-from-model", start, "--no-save")
        run = run_fairseq("train", toy_data_bin, *flags, *SHARED, *places)
        assert run.returncode == 0, run.stderr
        found.append(losses(run.stderr + run.stdout))
    stock, ours = found
    assert len(ours) == len(stock) == UPDATES
    assert stock[-1] < 0.9 * stock[0]  # something was learned meanwhile
    for mine, theirs in zip(ours, stock, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4, abs=1.1e-3)  # both are rounded
