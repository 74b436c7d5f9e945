"""From the same weights, over the same batches, our training is that of fairseq's stock model."""

import json

import pytest
import torch

from tests.conftest import STOCK_TINY, run_module

UPDATES = 50
SHARED = (
    *("--max-tokens", "100", "--num-workers", "0", "--cpu", "--seed", "3", "--dropout", "0"),
    *("--label-smoothing", "0.1", "--lr-scheduler", "fixed", "--lr", "0.003", "--clip-norm", "1"),
    *("--no-progress-bar", "--log-format", "json", "--log-interval", "1"),
    *("--max-update", str(UPDATES), "--no-epoch-checkpoints", "--disable-validation"),
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


@pytest.fixture(scope="module")
def trained(toy_data_bin, stock_checkpoint, run_fairseq, tmp_path_factory):
    """Losses and last checkpoint of stock fairseq and of ours."""
    folder = tmp_path_factory.mktemp("same-training")
    imported = run_module(
        "vaswani_plugin.cli", "import", "--checkpoint", stock_checkpoint,
        "--data-bin", toy_data_bin, "--output", folder / "start.pt",
    )  # fmt: skip
    assert imported.returncode == 0, imported.stderr
    found = {}
    for name, flags, start in (
        ("stock", STOCK, stock_checkpoint),
        ("ours", OURS, folder / "start.pt"),
    ):
        save = ("--save-dir", folder / name, "--finetune-from-model", start)
        run = run_fairseq("train", toy_data_bin, *flags, *SHARED, *save)
        assert run.returncode == 0, run.stderr
        found[name] = losses(run.stderr + run.stdout), folder / name / "checkpoint_last.pt"
    return found


def test_every_loss_is_equal(trained):
    ours, stock = trained["ours"][0], trained["stock"][0]
    assert len(ours) == len(stock) == UPDATES
    assert stock[-1] < 0.9 * stock[0]  # something was learned meanwhile
    for mine, theirs in zip(ours, stock, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4, abs=1.1e-3)  # both are rounded


def test_the_weights_end_equal(trained, tmp_path):
    exported = run_module(
        "vaswani_plugin.cli", "export", "--to", "fairseq", "--checkpoint", trained["ours"][1],
        "--output", tmp_path / "exported.pt",
    )  # fmt: skip
    assert exported.returncode == 0, exported.stderr
    ours, stock = (
        torch.load(path, weights_only=False, map_location="cpu")["model"]
        for path in (tmp_path / "exported.pt", trained["stock"][1])
    )
    for name, theirs in stock.items():
        # A softmax doesn't see what all keys have in common: the gradient of their bias is noise.
        if name.endswith(("weight", "bias")) and not name.endswith("k_proj.bias"):
            torch.testing.assert_close(ours[name], theirs, rtol=1e-3, atol=1e-4, msg=name)
