"""The paper as fairseq's defaults: a run that sets nothing else is section 5."""

from typing import Any

from fairseq.registry import REGISTRIES
from omegaconf import DictConfig, OmegaConf

REGISTERED_DEFAULTS = {
    "criterion": "vaswani_label_smoothing",
    "optimizer": "vaswani_adam",
    "lr_scheduler": "vaswani",
}

PAPER_VALUES: dict[str, Any] = {
    "optimizer": "vaswani_adam",
    "optimizer.adam_betas": "(0.9, 0.98)",
    "optimizer.adam_eps": 1e-9,
    "optimizer.weight_decay": 0.0,
    "lr_scheduler": "vaswani",
    "lr_scheduler.warmup_updates": 4000,
    "lr_scheduler.lr_factor": 1.0,
    "criterion": "vaswani_label_smoothing",
    "criterion.label_smoothing": 0.1,
    "optimization.clip_norm": 0.0,
}
"""Section 5, by the keys of fairseq's configuration."""


def install() -> None:
    """Make the plugin's criterion, optimizer and schedule what fairseq takes when not told."""
    for registry, name in REGISTERED_DEFAULTS.items():
        REGISTRIES[registry]["default"] = name


def report(cfg: DictConfig) -> str:
    """Say in one line which of the paper's defaults are in force and which were changed.

    Args:
        cfg: fairseq's whole configuration.

    Returns:
        The line, without a line break.
    """
    kept, changed = [], []
    for key, value in PAPER_VALUES.items():
        actual = OmegaConf.select(cfg, key)
        if isinstance(actual, DictConfig):
            actual = actual.get("_name")
        if actual is None:
            continue
        (kept if actual == value else changed).append(f"{key}={actual}")
    line = "paper defaults in force: " + (", ".join(kept) or "none")
    return f"{line}; changed: {', '.join(changed)}" if changed else line
