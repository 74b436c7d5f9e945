"""`vaswani export`: stock fairseq generates the same without our plugin; safetensors are enough."""

import shutil
from pathlib import Path

import pytest
import torch
from toy_bundle import SENTENCES, write_toy_bundle

from tests.support.commands import vaswani
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.inference.checkpoints import load_checkpoint

SEARCH = ("--beam", 3, "--lenpen", 1.2, "--max-len-b", 12, "--max-tokens", 200, "--cpu")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    """A bundle that fairseq can express as it is."""
    folder = tmp_path_factory.mktemp("bundle")
    return write_toy_bundle(folder, model=("--arch", "vaswani_debug", "--layer-norm-eps", "1e-5"))


def export(model: Path, output: Path) -> Path:
    done = vaswani("export", "--to", "fairseq", "--model", model, "--output", output)
    assert done.out == f"wrote {output} for fairseq, from {done.out.split()[-1]}\n", done.err
    return output


def test_stock_fairseq_generates_the_same(bundle, tmp_path, run_fairseq):
    """Task, model and search are fairseq's own there."""
    words = [
        word for line in SENTENCES for word in Bundle.load(bundle).pipeline.encode(line).split()
    ]
    lines = [" ".join(words[n : n + 3 + n % 7]) for n in range(len(words) - 9)]
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in lines))
    flags = ("--task", "vaswani_translation", "--length-penalty", "fairseq", "--max-len-a", 0)
    found = []
    for path, of_model in (
        (export(bundle, tmp_path / "new" / "stock.pt"), ("--task", "translation")),
        (bundle / "model.pt", flags),
    ):
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


def test_from_safetensors_alone(bundle, tmp_path):
    alone = shutil.copytree(bundle, tmp_path / "alone")
    assert vaswani("card", "--model", alone).code == 0
    (alone / "model.pt").unlink()
    first, second = (
        load_checkpoint(export(source, tmp_path / f"{source.name}.pt"))
        for source in (bundle, alone)
    )
    assert first["model"].keys() == second["model"].keys()
    assert all(torch.equal(first["model"][key], second["model"][key]) for key in first["model"])
    assert first["cfg"]["model"] == second["cfg"]["model"]
