"""The paper's values as fairseq's defaults: a run without further flags trains as in section 5."""

from typing import Any

from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from fairseq.registry import REGISTRIES
from omegaconf import DictConfig, OmegaConf

from vaswani_plugin.model.families import (
    CLIPPING,
    LANGUAGE_MODELING,
    SMOOTHING,
    families,
    family_of,
)

RESOLVER = "vaswani_default"
"""What `${vaswani_default:KEY}` begins with: a setting that is not given has our default."""

PAPER_VALUES: dict[str, Any] = {
    "optimizer": "vaswani_adam",
    "optimizer.adam_betas": "(0.9, 0.98)",
    "optimizer.adam_eps": 1e-9,
    "optimizer.weight_decay": 0.0,
    "lr_scheduler": "vaswani",
    "lr_scheduler.warmup_updates": 4000,
    "lr_scheduler.lr_factor": 1.0,
    "criterion": "vaswani_label_smoothing",
    SMOOTHING: 0.1,
    CLIPPING: 0.0,
}
"""Section 5, by the keys of fairseq's configuration."""

PAPER_BATCH = 8 * 4096
"""Padded tokens of an update in the authors' code; in the paper about 25,000 real ones a side."""


def values_of(task: str, model: str) -> dict[str, Any]:
    """The defaults of a run by fairseq's keys, for the names of its task and model (or row)."""
    values = dict(PAPER_VALUES)
    if task == LANGUAGE_MODELING:
        # Section 5.4: smoothing "hurts perplexity", which is how language models are measured.
        values[SMOOTHING] = 0.0
    family = family_of(ARCH_MODEL_NAME_REGISTRY.get(model, model))
    return values | dict(family.defaults if family else {})


def values_in(cfg: DictConfig) -> dict[str, Any]:
    """Return the defaults of a configuration's task and model."""
    return values_of(*(str(OmegaConf.select(cfg, f"{part}._name")) for part in ("task", "model")))


def install() -> None:
    """Make the plugin's criterion, optimizer and schedule the defaults of fairseq."""
    for registry in ("criterion", "optimizer", "lr_scheduler"):
        REGISTRIES[registry]["default"] = PAPER_VALUES[registry]

    def value_of(key: str, *, _root_: DictConfig) -> Any:
        return values_in(_root_)[key]

    OmegaConf.register_new_resolver(RESOLVER, value_of, replace=True)


def task_of(arch: str) -> str | None:
    """Return the task that trains an architecture; None if it is not one of ours."""
    named = reversed([*families()])  # of a name that two tasks share, the first one
    tasks = {name: f.task for f in named for name in (f.model, *(row.name for row in f.rows))}
    return tasks.get(arch)


def report(cfg: DictConfig) -> str:
    """Report in one line which of the paper's defaults are in force and which were changed."""
    kept, changed = list[str](), list[str]()
    for key, value in values_in(cfg).items():
        actual = OmegaConf.select(cfg, key)
        if isinstance(actual, DictConfig):
            actual = actual.get("_name")
        if actual is not None:
            (kept if actual == value else changed).append(f"{key}={actual}")
    parts = [f"paper defaults in force: {', '.join(kept) or 'none'}"]
    tokens = OmegaConf.select(cfg, "dataset.max_tokens")
    if isinstance(tokens, int):  # None where sentences are counted
        devices = OmegaConf.select(cfg, "distributed_training.distributed_world_size") or 1
        batches = (OmegaConf.select(cfg, "optimization.update_freq") or [1])[0]
        update = tokens * devices * batches
        parts.append(
            f"an update: max-tokens {tokens} x {devices} device(s) x update-freq {batches} ="
            f" {update} padded tokens at most, {update / PAPER_BATCH:.2g} of the authors'"
        )
    if changed:
        parts.append(f"changed: {', '.join(changed)}")
    if OmegaConf.select(cfg, "optimization.lr") != [0.25]:  # fairseq's default
        parts.append("--lr has no effect: Eq. 3 gives the rate, and --lr-factor scales it")
    return "; ".join(parts)
