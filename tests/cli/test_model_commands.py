"""`vaswani average`, `export` and `import`: what they take, and what fairseq makes of it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from toy_bundle import SENTENCES, write_toy_bundle

from tests.support.commands import vaswani
from vaswani_plugin.export.checkpoints import save_checkpoint, save_safetensors
from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.inference.checkpoints import load_checkpoint

Save = Callable[..., Path]
SEARCH = ("--beam", 3, "--lenpen", 1.2, "--max-len-b", 12, "--max-tokens", 200, "--cpu")


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """``save(name, value)`` writes a checkpoint with one weight."""

    def write(name: str, value: float, maximize: bool = False, updates: int = 0) -> Path:
        cfg = {"model": {"_name": "x"}, "checkpoint": {"maximize_best_checkpoint_metric": maximize}}
        (tmp_path / "in").mkdir(exist_ok=True)
        path = tmp_path / "in" / name
        state = {"model": {"w": torch.tensor([float(value)])}, "cfg": cfg}
        if updates:
            state["optimizer_history"] = [{"num_updates": 7}, {"num_updates": updates}]
        save_checkpoint(state, path)
        return path

    return write


def averaged(tmp_path: Path, *flags: object) -> float:
    """The averaged weight of the folder's checkpoints, the same in a file and on stdout."""
    files = tmp_path / "new" / "out.pt", tmp_path / "stdout.pt"
    for output in (files[0], "-"):
        with open(files[1], "wb") as stdout:
            where = ("--inputs", tmp_path / "in", "--output", output)
            done = vaswani("average", *where, *flags, stdout=stdout)
        assert done.code == 0, done.err
    (weight,) = {load_checkpoint(file)["model"]["w"].item() for file in files}
    return weight


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


def export(model: Path, output: Path, read: Path) -> Path:
    done = vaswani("export", "--to", "fairseq", "--model", model, "--output", output)
    assert done.out == f"wrote {output} for fairseq, from {read}\n", done.err
    return output


def test_stock_fairseq_generates_the_same(tmp_path, run_fairseq) -> None:
    """Task, model and search are fairseq's own there. Without model.pt the weights are the same."""
    model = ("--arch", "vaswani_debug", "--layer-norm-eps", "1e-5")
    bundle = write_toy_bundle(tmp_path, model=model)
    words = " ".join(map(Bundle.load(bundle).pipeline.encode, SENTENCES)).split()
    lines = [" ".join(words[n : n + 3 + n % 7]) for n in range(len(words) - 9)]
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in lines))
    flags = ("--task", "vaswani_translation", "--length-penalty", "fairseq", "--max-len-a", 0)
    stock, found = export(bundle, tmp_path / "new" / "stock.pt", bundle / "model.pt"), []
    for path, of_model in ((stock, ("--task", "translation")), (bundle / "model.pt", flags)):
        given = ("--path", path, "--input", tmp_path / "lines", "--buffer-size", 1000, *SEARCH)
        languages = ("--source-lang", "en", "--target-lang", "de")
        done = run_fairseq("interactive", bundle, *languages, *given, *of_model)
        assert done.returncode == 0, done.stderr
        found.append([x.split("\t") for x in done.stdout.split("\n") if x.startswith("H-")])
    assert len(found[0]) == len(lines) > 20
    assert len({text for *_, text in found[0]}) > 5
    for (name, score, text), (same, other, expected) in zip(*found, strict=True):
        assert (name, text) == (same, expected)
        assert float(score) == pytest.approx(float(other), abs=1e-4)
    save_safetensors(load_checkpoint(bundle / "model.pt"), bundle / "model.safetensors")
    (bundle / "model.pt").unlink()
    alone = export(bundle, tmp_path / "alone.pt", bundle / "model.safetensors")
    first, second = map(load_checkpoint, (stock, alone))
    assert all(torch.equal(first["model"][name], w) for name, w in second["model"].items())


@torch.no_grad()
def test_an_imported_checkpoint_is_one_of_ours(stock_checkpoint, toy_data_bin, tmp_path) -> None:
    output = tmp_path / "new" / "ours.pt"
    given = ("import", "--checkpoint", stock_checkpoint, "--output", output, "--data-bin")
    assert vaswani(*given, toy_data_bin).code == 0
    scores = []
    for path in (stock_checkpoint, output):
        (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)])
        tokens = torch.arange(4, 24).view(4, 5)
        scores.append(model.eval()(tokens, torch.full((4,), 5), tokens)[0])
    torch.testing.assert_close(*scores, atol=1e-5, rtol=0)
    assert isinstance(model, VaswaniTransformer)
    assert cfg.task._name == "vaswani_translation" and cfg.task.source_lang == "src"
    # As many words in another order: only the digest tells.
    for language in ("src", "tgt"):
        rows = (toy_data_bin / f"dict.{language}.txt").read_text(encoding="utf-8").split("\n")[:-1]
        text = "".join(f"{row}\n" for row in reversed(rows))
        (tmp_path / f"dict.{language}.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="not the one that the checkpoint was trained with"):
        data = {"data": str(tmp_path)}
        checkpoint_utils.load_model_ensemble_and_task([str(output)], arg_overrides=data)
    (tmp_path / "empty").mkdir()
    error = vaswani(*given, tmp_path / "empty").error
    assert "name its languages; `vaswani import` takes both --source-lang" in error
