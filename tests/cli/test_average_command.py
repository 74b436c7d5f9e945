"""`vaswani average`: which files it takes, and its errors."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.support.commands import vaswani
from vaswani_plugin.export.checkpoints import save_checkpoint
from vaswani_plugin.inference.checkpoints import load_checkpoint

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """``save(name, value)`` writes a checkpoint with one weight."""

    def write(name: str, value: float, maximize: bool = False, updates: int = 0) -> Path:
        checkpoint = {"maximize_best_checkpoint_metric": maximize}
        cfg = {"model": {"_name": "x"}, "checkpoint": checkpoint}
        (tmp_path / "in").mkdir(exist_ok=True)
        path = tmp_path / "in" / name
        state = {"model": {"w": torch.tensor([float(value)])}, "cfg": cfg}
        if updates:
            state["optimizer_history"] = [{"num_updates": 7}, {"num_updates": updates}]
        save_checkpoint(state, path)
        return path

    return write


def averaged(tmp_path: Path, *flags: object) -> float:
    """The averaged weight of the folder's checkpoints."""
    output = tmp_path / "new" / "out.pt"
    done = vaswani("average", "--inputs", tmp_path / "in", "--output", output, *flags)
    assert done.code == 0, done.err
    return load_checkpoint(output)["model"]["w"].item()


EPOCHS = {f"checkpoint{n}.pt": n for n in (1, 2, 9, 10, 11)}
INTERVALS = {f"checkpoint_2_{n}.pt": n for n in (1000, 1500, 2000)}
SCORES = {f"checkpoint.best_loss_{n:.3f}.pt": n for n in (2.0, 3.0, 8.0, 10.0)}
OTHERS = dict.fromkeys(("checkpoint_last.pt", "checkpoint_best.pt", "x.pt"), 1000)
# An epoch's number may fall when training starts again from a checkpoint.
AGAIN = {f"checkpoint_{e}_{n}.pt": n for e, n in ((1, 500), (2, 1000), (1, 2000), (10, 900))}


@pytest.mark.parametrize(
    ("weights", "flags", "expected"),
    [
        (EPOCHS | OTHERS | {"checkpoint_12_500.pt": 1000}, ("--last", 3), 10),
        (EPOCHS, ("--last", 1), 11),
        (AGAIN | {"checkpoint7.pt": 7}, ("--last-updates", 2), 1500),
        (INTERVALS | OTHERS, ("--last-updates", 3), 1500),
        (SCORES | OTHERS, ("--best", 2), 2.5),
        ({name.replace("loss", "bleu"): n for name, n in SCORES.items()}, ("--best", 2), 9.0),
        (SCORES | OTHERS, ("--best", 9, "--at-most"), 5.75),
        (EPOCHS | OTHERS, ("--last", 9, "--at-most"), 6.6),
    ],
)
def test_checkpoints_are_chosen_by_their_names(save, tmp_path, weights, flags, expected) -> None:
    for name, weight in weights.items():
        save(name, weight, maximize="bleu" in name)
    assert averaged(tmp_path, *flags) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("final", "flags", "expected"),
    [
        (2100, ("--last-updates", 3), (1500 + 2000 + 6) / 3),
        (2000, ("--last-updates", 3), 1500),
        (70, ("--last", 2), 4.5),  # --max-update 70 ended a training in an epoch of 20 updates
        (60, ("--last", 2), 2.5),
    ],
)
def test_a_final_state_between_two_others_counts(save, tmp_path, final, flags, expected) -> None:
    epochs = {f"checkpoint{n}.pt": (n, 20 * n) for n in (1, 2, 3)}
    intervals = {name: (n, n) for name, n in INTERVALS.items()} if "--last" not in flags else {}
    for name, (weight, update) in (epochs | intervals | {"checkpoint_last.pt": (6, final)}).items():
        save(name, weight, updates=update)
    assert averaged(tmp_path, *flags) == pytest.approx(expected)


def test_the_best_by_two_metrics_are_two_sets(save: Save, tmp_path: Path) -> None:
    save("checkpoint.best_bleu_3.000.pt", 1.0), save("checkpoint.best_loss_3.000.pt", 1.0)
    flags = ("--inputs", tmp_path / "in", "--best", 1, "--output", tmp_path / "out.pt")
    assert "the best by bleu and by loss; name the files" in vaswani("average", *flags).error
    assert not (tmp_path / "out.pt").exists()
