"""`vaswani export`: stock fairseq generates the same without our plugin; safetensors are enough."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from model_factory import SIZES, make_model
from omegaconf import OmegaConf
from reference_weights import shake

from tests.support.commands import Ended, vaswani
from vaswani_plugin.export.stock_fairseq import checkpoint_of
from vaswani_plugin.fairseq_plugin.configurations import VaswaniTransformerConfig
from vaswani_plugin.fairseq_plugin.tasks.translation import (
    VaswaniTranslationConfig,
    VaswaniTranslationTask,
)
from vaswani_plugin.inference.checkpoints import load_checkpoint, save_checkpoint

SEARCH = ("--beam", "3", "--lenpen", "1.2", "--max-len-b", "12", "--cpu", "--max-tokens", "200")


@pytest.fixture(scope="module")
def checkpoint(toy_data_bin, tmp_path_factory) -> Path:
    """A checkpoint of ours over the toy dictionaries, with random weights."""
    changes = {"layer_norm_eps": 1e-5, "share_embeddings": "none"}
    cfg = OmegaConf.structured(VaswaniTranslationConfig(data=str(toy_data_bin)))
    task = VaswaniTranslationTask.setup_task(cfg)
    model = shake(make_model(task, seed=5, **changes), size=0.3)
    state = checkpoint_of(
        model.state_dict(),
        {**asdict(VaswaniTransformerConfig(**{**SIZES, **changes})), "_name": "vaswani_debug"},
        {"_name": "vaswani_translation", "data": str(toy_data_bin)},
        5,
        task.state_dict(),
    )
    path = tmp_path_factory.mktemp("ours") / "ours.pt"
    save_checkpoint(state, path)
    return path


@pytest.fixture
def bundle(checkpoint, toy_data_bin, tmp_path) -> Path:
    folder = tmp_path / "bundle"
    folder.mkdir()
    shutil.copy(checkpoint, folder / "model.pt")
    for language in ("src", "tgt"):
        shutil.copy(toy_data_bin / f"dict.{language}.txt", folder)
    settings = {
        **{"version": 1, "source_language": "src", "target_language": "tgt"},
        **{"lowercase": False, "normalize_punctuation": False},
        **{"tokenizer": "none", "subwords": "none"},
    }
    (folder / "preprocessing.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def export(to: str, model: Path, output: Path, *flags: object) -> Ended:
    return vaswani("export", "--to", to, "--model", model, "--output", output, *flags)


def hypotheses(stdout: str) -> dict[str, tuple[str, float]]:
    """H- lines of fairseq-generate by sentence: text and score."""
    rows = [line.split("\t") for line in stdout.split("\n") if line.startswith("H-")]
    assert len(rows) > 40, stdout
    return {name: (text, float(score)) for name, score, text in rows}


def test_stock_fairseq_generates_the_same(checkpoint, toy_data_bin, tmp_path, run_fairseq):
    stock = tmp_path / "new" / "stock.pt"
    assert export("fairseq", checkpoint, stock).code == 0
    # The plugin only stands in for the compiled extensions: task, model and search are fairseq's.
    theirs = run_fairseq(
        "generate", toy_data_bin, "--path", stock, "--task", "translation", *SEARCH
    )
    assert theirs.returncode == 0, theirs.stderr
    flags = ("--task", "vaswani_translation", "--length-penalty", "fairseq", "--max-len-a", 0)
    ours = run_fairseq("generate", toy_data_bin, "--path", checkpoint, *flags, *SEARCH)
    assert ours.returncode == 0, ours.stderr
    expected, found = hypotheses(ours.stdout), hypotheses(theirs.stdout)
    assert len({text for text, _ in found.values()}) > 5
    assert len({score for _, score in found.values()}) > 30, "the source plays no part"
    assert found.keys() <= expected.keys()
    for name, (text, score) in found.items():
        assert text == expected[name][0]
        assert score == pytest.approx(expected[name][1], abs=1e-4)


def test_from_safetensors_alone(bundle, tmp_path):
    alone = shutil.copytree(bundle, tmp_path / "alone")
    assert vaswani("card", "--model", alone).code == 0
    (alone / "model.pt").unlink()
    for source, output in ((bundle, "a.pt"), (alone, "b.pt")):
        assert export("fairseq", source, tmp_path / output).code == 0
    first, second = (load_checkpoint(tmp_path / name) for name in ("a.pt", "b.pt"))
    assert first["model"].keys() == second["model"].keys()
    assert all(torch.equal(first["model"][key], second["model"][key]) for key in first["model"])
    assert first["cfg"]["model"] == second["cfg"]["model"]
