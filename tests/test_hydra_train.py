"""fairseq-hydra-train with a configuration of ours trains as fairseq-train with the row's name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq_flags import PLUGIN

UPDATES = 3


def run(folder: Path, *command: object) -> str:
    """Train in a process of its own, from the root of the repository; its output."""
    result = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=PLUGIN.parent,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(PLUGIN.parent)},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr + "".join(p.read_text() for p in folder.glob("*.log"))


@pytest.fixture(scope="module")
def trained(toy_data_bin, tmp_path_factory):
    """Output and checkpoint of the same run, started in the two ways."""
    by_hydra, by_flags = tmp_path_factory.mktemp("hydra"), tmp_path_factory.mktemp("flags")
    output = run(
        by_hydra,
        *("fairseq_cli.hydra_train", "--config-dir", PLUGIN.parent / "recipes/config"),
        *("--config-name", "vaswani_debug", f"task.data={toy_data_bin}"),
        *(f"checkpoint.save_dir={by_hydra}", f"optimization.max_update={UPDATES}"),
        *("common.cpu=true", "dataset.max_tokens=200", "dataset.num_workers=0"),
    )
    other = run(
        by_flags,
        *("fairseq_cli.train", toy_data_bin, "--user-dir", PLUGIN, "--arch", "vaswani_debug"),
        *("--task", "vaswani_translation", "--save-dir", by_flags, "--max-update", UPDATES),
        *("--cpu", "--max-tokens", 200, "--num-workers", 0),
    )
    name = "checkpoint_last.pt"
    return (output, torch.load(by_hydra / name)), (other, torch.load(by_flags / name))


def test_the_log_names_the_papers_defaults_once(trained):
    for output, _ in trained:
        (line,) = {
            line[line.index("paper defaults") :]
            for line in output.splitlines()
            if "paper defaults in force" in line
        }
        assert "optimizer=vaswani_adam" in line and "lr_scheduler.warmup_updates=4000" in line
        assert "criterion.label_smoothing=0.1" in line and "changed" not in line


def test_both_ways_train_the_same_weights(trained):
    (_, hydra), (_, flags) = trained
    assert set(hydra["model"]) == set(flags["model"])
    for name, tensor in flags["model"].items():
        assert hydra["model"][name].equal(tensor), name


def test_the_checkpoint_is_complete(trained):
    for _, checkpoint in trained:
        assert checkpoint["optimizer_history"][-1]["num_updates"] == UPDATES
        assert checkpoint["optimizer_history"][-1]["optimizer_name"] == "VaswaniAdam"
        assert checkpoint["cfg"]["model"]["d_model"] == 32
