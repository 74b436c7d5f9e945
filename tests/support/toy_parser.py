"""A parser's bundle in a second: made-up trees, a model of random weights."""

from pathlib import Path

import torch
import toy_trees
from bundle import make_tree_bundle, parse_changes
from code_trees import code_trees
from fairseq import tasks
from fairseq_flags import training_config
from omegaconf import OmegaConf

from vaswani_plugin.text.settings import TreeSettings

TREES = list(toy_trees.distinct_trees(60, 1))
FLAGS = ("--task", "vaswani_parsing", "--arch", "vaswani_parser_debug")
LIMITS = ("--max-source-positions", "150", "--max-target-positions", "500")


def write_parser_bundle(
    folder: Path, coding: str = "bpe", keep_tags: bool = True, model: tuple[str, ...] = FLAGS
) -> Path:
    """Makes the bundle in `folder`/model and returns that; its data are in `folder`/bin."""
    (folder / "trees").write_text("".join(f"{tree}\n" for tree in TREES), encoding="utf-8")
    settings = TreeSettings(coding, keep_tags, True, "codes" if coding == "bpe" else None)
    splits = {split: [str(folder / "trees")] for split in ("train", "valid", "test")}
    code_trees(splits, settings, folder / "bin", 100, 2, 1)
    cfg = training_config(*model, *LIMITS).copy()
    cfg.task.data = str(folder / "bin")
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(1)
    built = task.build_model(cfg.model)
    with torch.no_grad():
        if hasattr(built, "projection_weight"):  # else it is a model of fairseq's own
            built.projection_weight.mul_(3.0)
    state = {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": built.state_dict(),
        "optimizer_history": [{"lr_scheduler_state": {}, "num_updates": 1}],
        "task_state": task.state_dict(),
        "extra_state": {},
        "last_optimizer_state": None,
    }
    torch.save(state, folder / "averaged.pt")
    changes = parse_changes(["beam=3"], folder / "bin")
    make_tree_bundle(folder / "averaged.pt", folder / "bin", changes, folder / "model")
    return folder / "model"
