"""Toy corpora of the three tasks, and the flags that train a debug-sized model on each."""

from pathlib import Path

import pytest
import torch
import toy_language_model
from torch import Tensor
from toy_parser import write_tree_data

# Highest rate 5e-3 after 20 updates: what goes wrong shows, and differences grow.
FAST = ("--warmup-updates", "20", "--lr-factor", "0.13", "--seed", "3", "--num-workers", "0")
NO_DROPOUT = ("--dropout", "0")


def assert_same_weights(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Equal but for the order in which gradients are added; one wrong update makes up 1e-3."""
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        # A softmax doesn't see what all keys have in common: the gradient of their bias is noise.
        if not name.endswith("key.bias"):
            torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-4, msg=name)


@pytest.fixture(scope="session")
def language_data(tmp_path_factory) -> Path:
    """A small text, binarized."""
    return toy_language_model.write_data(tmp_path_factory.mktemp("language"))


@pytest.fixture(scope="session")
def tree_data(tmp_path_factory) -> Path:
    """Made-up trees, coded."""
    return write_tree_data(tmp_path_factory.mktemp("trees"))


@pytest.fixture(scope="session")
def flags_of_tasks(toy_data_bin, language_data, tree_data) -> dict[str, tuple]:
    """Task: flags of fairseq-train, without a length. No epoch has an even number of batches."""
    translation = (toy_data_bin, "--task", "vaswani_translation", "--arch", "vaswani_debug")
    language = (language_data, "--task", "vaswani_language_modeling", "--arch", "vaswani_lm_debug")
    parsing = (tree_data, "--task", "vaswani_parsing", "--arch", "vaswani_parser_debug")
    return {
        "translation": (*translation, "--max-tokens", 100, *FAST),
        "language modeling": (*language, "--tokens-per-sample", 32, "--max-tokens", 320, *FAST),
        "parsing": (*parsing, "--max-tokens", 900, *FAST),
    }
