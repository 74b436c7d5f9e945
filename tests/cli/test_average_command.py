"""`vaswani average`: which files it takes, its errors, and a result that fairseq loads."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils

import vaswani_plugin
from tests.conftest import RunFairseq
from vaswani_plugin.cli.__main__ import main
from vaswani_plugin.export.average import select
from vaswani_plugin.inference.checkpoints import load_checkpoint, save_checkpoint

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """``save(name, value, maximize=False)`` writes a checkpoint with one weight."""

    def write(name: str, value: float, maximize: bool = False) -> Path:
        checkpoint = {"maximize_best_checkpoint_metric": maximize}
        cfg = {"model": {"_name": "x"}, "checkpoint": checkpoint}
        (tmp_path / "in").mkdir(exist_ok=True)
        path = tmp_path / "in" / name
        save_checkpoint({"model": {"w": torch.tensor([value])}, "cfg": cfg}, path)
        return path

    return write


def averaged(tmp_path: Path, *flags: object) -> float:
    """The averaged weight of the folder's checkpoints."""
    output = tmp_path / "new" / "out.pt"
    arguments = ["average", "--inputs", tmp_path / "in", "--output", output, *flags]
    assert main(list(map(str, arguments))) == 0
    return load_checkpoint(output)["model"]["w"].item()


def error_of(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    assert main(["average", *map(str, arguments)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("vaswani average: error: ") and error.count("\n") == 1
    return error


def test_last_counts_epochs_as_numbers(save: Save, tmp_path: Path) -> None:
    for epoch in (1, 2, 9, 10, 11):
        save(f"checkpoint{epoch}.pt", float(epoch))
    for name in ("checkpoint_last.pt", "checkpoint_best.pt", "checkpoint_12_500.pt", "x.pt"):
        save(name, 1000.0)
    assert averaged(tmp_path, "--last", 3) == 10.0
    assert averaged(tmp_path, "--last", 1) == 11.0


def test_last_updates_goes_by_the_update(save: Save, tmp_path: Path) -> None:
    # An epoch's number may fall when training starts again from a checkpoint.
    for epoch, update in ((1, 500), (2, 1000), (1, 2000), (10, 900)):
        save(f"checkpoint_{epoch}_{update}.pt", float(update))
    save("checkpoint7.pt", 7.0)
    assert averaged(tmp_path, "--last-updates", 2) == 1500.0


@pytest.mark.parametrize(
    ("final", "expected"), [(2100, (1500.0 + 2000.0 + 2100.0) / 3), (2000, 1500.0), (None, 1500.0)]
)
def test_last_updates_count_a_final_state_between_two_intervals(
    save: Save, tmp_path: Path, final: int | None, expected: float
) -> None:
    for update in (1000, 1500, 2000):
        save(f"checkpoint_2_{update}.pt", float(update))
    last = load_checkpoint(save("checkpoint_last.pt", 2100.0))
    if final is not None:
        last["optimizer_history"] = [{"num_updates": 7}, {"num_updates": final}]
    save_checkpoint(last, tmp_path / "in" / "checkpoint_last.pt")
    assert averaged(tmp_path, "--last-updates", 3) == pytest.approx(expected)


@pytest.mark.parametrize(("final", "expected"), [(70, 4.5), (60, 2.5), (None, 2.5)])
def test_last_counts_a_final_state_inside_an_epoch(
    save: Save, tmp_path: Path, final: int | None, expected: float
) -> None:
    """--max-update 70 ended a training in its fourth epoch of 20 updates."""
    for name, weight, update in (
        ("checkpoint1.pt", 1.0, 20),
        ("checkpoint2.pt", 2.0, 40),
        ("checkpoint3.pt", 3.0, 60),
        ("checkpoint_last.pt", 6.0, final),
    ):
        path = save(name, weight)
        state = load_checkpoint(path)
        if update is not None:
            state["optimizer_history"] = [{"num_updates": update}]
        save_checkpoint(state, path)
    assert averaged(tmp_path, "--last", 2) == expected


@pytest.mark.parametrize(("maximize", "expected"), [(False, 2.5), (True, 9.0)])
def test_best_goes_by_the_metrics_direction(
    save: Save, tmp_path: Path, maximize: bool, expected: float
) -> None:
    for value in (2.0, 3.0, 8.0, 10.0):
        save(f"checkpoint.best_loss_{value:.3f}.pt", value, maximize)
    save("checkpoint_best.pt", 100.0)
    assert averaged(tmp_path, "--best", 2) == expected
    assert averaged(tmp_path, "--best", 4) == 5.75
    best = select([tmp_path / "in"], best=4)[-1]
    assert best.name == f"checkpoint.best_loss_{10.0 if maximize else 2.0:.3f}.pt"


@pytest.mark.parametrize(
    ("flag", "names"),
    [
        ("--last", ("checkpoint1", "checkpoint2")),
        ("--last-updates", ("checkpoint_1_5", "checkpoint_2_9")),
        ("--best", ("checkpoint.best_loss_3.200", "checkpoint.best_loss_3.100")),
    ],
)
def test_checkpoints_with_a_suffix(
    save: Save, tmp_path: Path, capsys: pytest.CaptureFixture, flag: str, names: tuple[str, str]
) -> None:
    """Those of --checkpoint-suffix _b, beside those of another training in the folder."""
    for name, weight in zip(names, (2.0, 3.0), strict=True):
        save(f"{name}_b.pt", weight)
        save(f"{name}_c.pt", 100.0)
    assert averaged(tmp_path, flag, 2, "--checkpoint-suffix", "_b") == 2.5
    flags = ["--inputs", str(tmp_path / "in"), flag, "2", "--output", str(tmp_path / "o.pt")]
    assert main(["average", *flags]) == 1
    assert "there are only 0 checkpoints named" in capsys.readouterr().err


def test_wrong_inputs(save: Save, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path, other, output = save("a.pt", 1.0), save("b.pt", 2.0), tmp_path / "out.pt"
    to_output = ("--output", output)
    assert "is a folder: say which" in error_of(capsys, "--inputs", path.parent, *to_output)
    assert "given twice" in error_of(capsys, "--inputs", path, path, *to_output)
    assert "no such file" in error_of(capsys, "--inputs", tmp_path / "none", *to_output)
    assert "would be lost" in error_of(capsys, "--inputs", path, other, "--output", path)
    assert load_checkpoint(path)["model"]["w"].item() == 1.0
    assert "is a folder; name a file" in error_of(capsys, "--inputs", path, "--output", tmp_path)
    save("checkpoint.best_bleu_3.000.pt", 1.0), save("checkpoint.best_loss_3.000.pt", 1.0)
    error = error_of(capsys, "--inputs", path.parent, "--best", 1, *to_output)
    assert "the best by bleu and by loss; name the files" in error
    for flags in (["--last", "0"], ["--last", "1", "--best", "1"]):
        with pytest.raises(SystemExit) as stop:
            main(["average", "--inputs", str(path), "--output", str(output), *flags])
        assert stop.value.code == 2
    assert not output.exists()


TRAINING = "--max-tokens 500 --max-epoch 2 --cpu --num-workers 0 --no-progress-bar --seed 1".split()
ARCHITECTURES = {
    "stock": "transformer_tiny --optimizer adam --lr-scheduler fixed --lr 1e-3 "
    "--criterion cross_entropy",
    "ours": "vaswani_debug --warmup-updates 10",
}


@pytest.mark.parametrize("which", ARCHITECTURES)
def test_result_loads_in_fairseq(
    which: str, toy_data_bin: Path, run_fairseq: RunFairseq, tmp_path: Path
) -> None:
    name, *flags = ARCHITECTURES[which].split()
    trained = run_fairseq(
        *("train", toy_data_bin, "--arch", name, *flags, *TRAINING, "--save-dir", tmp_path / "in")
    )
    assert trained.returncode == 0, trained.stderr
    output = tmp_path / "average.pt"
    arguments = ["average", "--inputs", tmp_path / "in", "--last", 2, "--output", output]
    assert main(list(map(str, arguments))) == 0

    files = [str(tmp_path / "in" / f"checkpoint{epoch}.pt") for epoch in (1, 2)]
    vaswani_plugin.register()  # as --user-dir does
    (model,), _ = checkpoint_utils.load_model_ensemble([str(output)])
    parts, _ = checkpoint_utils.load_model_ensemble(files)
    weights = [dict(part.named_parameters()) for part in parts]
    moved = 0.0
    for key, tensor in model.named_parameters():
        values = [w[key].detach().numpy().astype(np.float64) for w in weights]
        np.testing.assert_allclose(tensor.detach().numpy(), np.mean(values, axis=0), rtol=1e-6)
        moved = max(moved, np.abs(values[0] - values[1]).max())
    assert moved > 1e-4, "both checkpoints are alike: the mean shows nothing"

    flags = ("--cpu", "--beam", 2, "--gen-subset", "valid")
    generated = run_fairseq("generate", toy_data_bin, "--path", output, *flags)
    assert generated.returncode == 0, generated.stderr
    assert generated.stdout.count("\nH-") == 20
