"""fairseq-hydra-train with a configuration of ours trains as fairseq-train with the row's name.

That all rows give the same configuration is in tests/model.
"""

import torch

from tests.conftest import REPO, fairseq_environment
from tests.support.commands import run_python


def test_both_ways_train_alike(toy_data_bin, run_fairseq, tmp_path):
    by_hydra, by_flags = tmp_path / "hydra", tmp_path / "flags"
    config = ("--config-dir", REPO / "recipes/config", "--config-name", "translation")
    settings = {
        **{"model": "vaswani_tiny", "task.data": toy_data_bin, "checkpoint.save_dir": by_hydra},
        **{"optimization.max_update": 3, "common.cpu": "true", "dataset.max_tokens": 200},
        **{"dataset.num_workers": 0, "model.d_model": 32},
    }
    pairs = [f"{key}={value}" for key, value in settings.items()]
    hydra = run_python(  # a new process, in which the configuration names the plugin
        *("-m", "fairseq_cli.hydra_train", *config, *pairs),
        **{"cwd": REPO, "capture_output": True, "text": True, "env": fairseq_environment()},
    )
    flags = run_fairseq(
        *("train", toy_data_bin, "--arch", "vaswani_tiny", "--save-dir", by_flags),
        *("--max-update", 3, "--cpu", "--max-tokens", 200, "--num-workers", 0, "--d-model", 32),
    )
    states = []
    for run, folder in ((hydra, by_hydra), (flags, by_flags)):
        assert run.returncode == 0, run.stderr
        output = run.stdout + run.stderr + "".join(p.read_text() for p in folder.glob("*.log"))
        (line,) = {s.partition("paper defaults")[2] for s in output.splitlines()} - {""}
        assert "optimizer=vaswani_adam" in line and "lr_scheduler.warmup_updates=4000" in line
        assert "criterion.label_smoothing=0.1" in line and "changed" not in line
        states.append(torch.load(folder / "checkpoint_last.pt"))
    for state in states:
        assert state["optimizer_history"][-1]["num_updates"] == 3
        assert state["cfg"]["model"]["d_model"] == 32
    assert states[0]["model"].keys() == states[1]["model"].keys()
    for key, tensor in states[1]["model"].items():
        assert states[0]["model"][key].equal(tensor), key
