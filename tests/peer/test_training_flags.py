"""Flags of fairseq's trainer that `VaswaniTrainer` inherits."""

import torch

DECAY = 0.9
DEBUG = ("--user-dir", "vaswani_plugin", "--arch", "vaswani_debug", "--cpu", "--max-tokens", 150)


def test_moving_averages_follow_the_weights(toy_data_bin, run_fairseq, tmp_path):
    """--ema-decay: each average is that of the update before and the new weights."""
    run = run_fairseq(
        *("train", toy_data_bin, *DEBUG, "--max-update", 3, "--save-interval-updates", 1),
        *("--store-ema", "--ema-decay", DECAY, "--save-dir", tmp_path, "--lr-factor", 9),
        *("--share-embeddings", "none"),  # fairseq averages a shared weight once for each name
    )
    assert run.returncode == 0, run.stderr
    states = [torch.load(tmp_path / f"checkpoint_1_{update}.pt") for update in (1, 2, 3)]
    for before, after in zip(states, states[1:], strict=False):
        old, new = before["extra_state"]["ema"], after["extra_state"]["ema"]
        for name, weight in after["model"].items():
            expected = DECAY * old[name].double() + (1 - DECAY) * weight.double()
            torch.testing.assert_close(new[name].double(), expected, atol=1e-6, rtol=1e-5)
            assert old[name].numel() == 0 or not torch.equal(new[name], weight)


def test_a_training_begins_with_another_models_weights(toy_data_bin, run_fairseq, tmp_path):
    """--finetune-from-model takes the weights and nothing else: updates count from 0."""
    first, second = tmp_path / "first", tmp_path / "second"
    common = ("train", toy_data_bin, *DEBUG, "--no-epoch-checkpoints", "--max-update")
    run = run_fairseq(*common, 3, "--save-dir", first, "--lr-factor", 9)
    assert run.returncode == 0, run.stderr
    given = first / "checkpoint_last.pt"
    tuned = ("--finetune-from-model", given, "--save-dir", second, "--lr-factor", 1e-12)
    run = run_fairseq(*common, 1, *tuned)
    assert run.returncode == 0, run.stderr
    state, source = torch.load(second / "checkpoint_last.pt"), torch.load(given)
    assert state["optimizer_history"][-1]["num_updates"] == 1
    for name, weight in source["model"].items():
        torch.testing.assert_close(state["model"][name], weight, atol=1e-6, rtol=0)
