"""fairseq-hydra-train with a configuration of ours trains as fairseq-train with the row's name."""

import os
from pathlib import Path

import pytest
import torch
from fairseq_flags import PLUGIN
from toy_language_model import write_data

from tests.support.commands import run_python

UPDATES = 3


def run(folder: Path, *command: object) -> str:
    """Train in a process of its own, from the root of the repository; its output."""
    result = run_python(
        *("-m", *command),
        cwd=PLUGIN.parent,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(PLUGIN.parent)},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr + "".join(p.read_text() for p in folder.glob("*.log"))


TRAININGS = {
    "vaswani_tiny": "translation",
    "vaswani_lm_tiny": "language_modeling",
    "vaswani_seq2seq_lstm": "translation_lstm",
}
WIDTH = 32


@pytest.fixture(scope="module")
def text_data_bin(tmp_path_factory):
    """A text for a language model."""
    return write_data(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module", params=TRAININGS)
def trained(request, toy_data_bin, text_data_bin, tmp_path_factory):
    """Output and checkpoint of the same run, started in the two ways."""
    name, training = request.param, TRAININGS[request.param]
    data = text_data_bin if training == "language_modeling" else toy_data_bin
    by_hydra, by_flags = tmp_path_factory.mktemp("hydra"), tmp_path_factory.mktemp("flags")
    output = run(
        by_hydra,
        *("fairseq_cli.hydra_train", "--config-dir", PLUGIN.parent / "recipes/config"),
        *("--config-name", training, f"model={name}", f"task.data={data}"),
        *(f"checkpoint.save_dir={by_hydra}", f"optimization.max_update={UPDATES}"),
        *("common.cpu=true", "dataset.max_tokens=200", "dataset.num_workers=0"),
        f"model.d_model={WIDTH}",
    )
    other = run(
        by_flags,
        *("fairseq_cli.train", data, "--user-dir", PLUGIN, "--arch", name),
        *("--task", f"vaswani_{training.removesuffix('_lstm')}", "--save-dir", by_flags),
        *("--max-update", UPDATES, "--cpu", "--max-tokens", 200, "--num-workers", 0),
        *("--d-model", WIDTH),
    )
    last = "checkpoint_last.pt"
    return name, (output, torch.load(by_hydra / last)), (other, torch.load(by_flags / last))


def test_both_ways_train_alike(trained):
    name, *runs = trained
    for output, checkpoint in runs:
        lines = {line.partition("paper defaults")[2] for line in output.splitlines()} - {""}
        (line,) = lines
        smoothing, clipping = 0.1 if name == "vaswani_tiny" else 0.0, 5.0 * ("lstm" in name)
        assert "optimizer=vaswani_adam" in line and "lr_scheduler.warmup_updates=4000" in line
        assert f"criterion.label_smoothing={smoothing}" in line and "changed" not in line
        assert f"optimization.clip_norm={clipping}" in line
        assert checkpoint["optimizer_history"][-1]["num_updates"] == UPDATES
        assert checkpoint["cfg"]["model"]["d_model"] == WIDTH
    (_, hydra), (_, flags) = runs
    assert set(hydra["model"]) == set(flags["model"])
    for key, tensor in flags["model"].items():
        assert hydra["model"][key].equal(tensor), key
