"""A parser's bundle in a second: made-up trees, a model of random weights."""

from pathlib import Path

import torch
import toy_text
from bundle import make_bundle, make_settings
from code_trees import code_trees
from fairseq import tasks
from fairseq_flags import checkpoint_of, training_config

from vaswani_plugin.text.settings import TreeSettings

TREES = toy_text.toy_lines(toy_text.TREES, 60)
TESTED = 16  # the first so many of them are the test set, too
FLAGS = ("--task", "vaswani_parsing", "--arch", "vaswani_parser_debug")
FLAGS += ("--initial-weights", "own")  # so that trees differ
LIMITS = ("--max-source-positions", "150", "--max-target-positions", "300")


def write_tree_data(folder: Path, count: int = 40) -> Path:
    """Codes toy trees by whole words, the same ones in each split; returns the data folder."""
    path = folder / "trees"
    path.write_text("".join(f"{tree}\n" for tree in TREES[:count]), encoding="utf-8")
    splits = {split: [str(path)] for split in ("train", "valid", "test")}
    code_trees(splits, TreeSettings("words", True, True), folder / "bin", 1, 0, 1)
    return folder / "bin"


def write_parser_bundle(
    folder: Path, coding: str = "bpe", keep_tags: bool = True, model: tuple[str, ...] = FLAGS
) -> Path:
    """Makes the bundle in `folder`/model and returns that; its data are in `folder`/bin."""
    for name, count in (("trees", len(TREES)), ("tested", TESTED)):
        (folder / name).write_text("".join(f"{tree}\n" for tree in TREES[:count]), encoding="utf-8")
    settings = TreeSettings(coding, keep_tags, True, "codes" if coding == "bpe" else None)
    files = {"train": "trees", "valid": "tested", "test": "tested"}
    splits = {split: [str(folder / name)] for split, name in files.items()}
    code_trees(splits, settings, folder / "bin", 100, 2, 1)
    cfg = training_config(*model, *LIMITS).copy()
    cfg.task.data = str(folder / "bin")
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(1)
    built = task.build_model(cfg.model)
    with torch.no_grad():
        if hasattr(built, "projection_weight"):  # else it is a model of fairseq's own
            built.projection_weight.mul_(3.0)
    torch.save(checkpoint_of(cfg, task, built), folder / "averaged.pt")
    changes = make_settings(None, ["beam=3"], folder / "bin")
    make_bundle(folder / "averaged.pt", folder / "bin", changes, folder / "model")
    return folder / "model"
