"""The paper's values as fairseq's defaults: a run without further flags trains as in section 5."""

import argparse
from typing import Any

from fairseq.models import ARCH_MODEL_REGISTRY, FairseqLanguageModel
from fairseq.registry import REGISTRIES
from omegaconf import DictConfig, OmegaConf

REGISTERED_DEFAULTS = {
    "criterion": "vaswani_label_smoothing",
    "optimizer": "vaswani_adam",
    "lr_scheduler": "vaswani",
}

SMOOTHING = "criterion.label_smoothing"
RESOLVER = "vaswani_default"
"""The name of `value_of` in OmegaConf."""

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
    "optimization.clip_norm": 0.0,
}
"""Section 5, by the keys of fairseq's configuration."""

RECURRENT_MODELS = ("vaswani_seq2seq_lstm", "vaswani_attention_lstm")
RECURRENT_VALUES: dict[str, Any] = {
    SMOOTHING: 0.0,
    "optimization.clip_norm": 5.0,
}
"""Values that differ in the recurrent models. Neither Sutskever et al. (2014) nor Luong et al.
(2015) smooth labels; Sutskever et al. limit the gradient's norm to 5."""

RECURRENT_LANGUAGE_MODEL = "vaswani_lm_lstm"
RECURRENT_LANGUAGE_MODEL_VALUES: dict[str, Any] = {"optimization.clip_norm": 0.25}
"""Merity et al. (2017), section 5: gradients "explode", as the lecture notes say."""

PAPER_BATCH = 8 * 4096
"""Padded tokens of an update in the authors' code; in the paper about 25,000 real ones a side."""

TRANSLATION_TASK = "vaswani_translation"
LANGUAGE_MODEL_TASK = "vaswani_language_modeling"
LANGUAGE_MODEL_SMOOTHING = 0.0
"""Section 5.4: label smoothing "hurts perplexity", which is how language models are measured."""


def values_of(task: str, model: str) -> dict[str, Any]:
    """Return the defaults of a run, by the keys of fairseq's configuration.

    Args:
        task: the task's registered name.
        model: the model's registered name, or that of one of its rows.
    """
    if task == LANGUAGE_MODEL_TASK:
        is_recurrent = model.startswith(RECURRENT_LANGUAGE_MODEL)
        own = RECURRENT_LANGUAGE_MODEL_VALUES if is_recurrent else {}
        return {**PAPER_VALUES, SMOOTHING: LANGUAGE_MODEL_SMOOTHING, **own}
    if model.startswith(RECURRENT_MODELS):
        return {**PAPER_VALUES, **RECURRENT_VALUES}
    return PAPER_VALUES


def names_of(cfg: DictConfig) -> tuple[str, str]:
    """Return the registered names of a configuration's task and model, or "None"."""
    task, model = (OmegaConf.select(cfg, f"{group}._name") for group in ("task", "model"))
    return str(task), str(model)


def value_of(key: str, *, _root_: DictConfig) -> Any:
    """Return the default of a setting that is not given: the value of `${vaswani_default:KEY}`."""
    return values_of(*names_of(_root_))[key]


def install() -> None:
    """Make the plugin's criterion, optimizer and schedule the defaults of fairseq."""
    for registry, name in REGISTERED_DEFAULTS.items():
        REGISTRIES[registry]["default"] = name
    OmegaConf.register_new_resolver(RESOLVER, value_of, replace=True)


def task_of(arch: str) -> str | None:
    """Return the task that trains an architecture; None if it is not one of ours."""
    if not arch.startswith("vaswani_") or arch not in ARCH_MODEL_REGISTRY:
        return None
    is_language_model = issubclass(ARCH_MODEL_REGISTRY[arch], FairseqLanguageModel)
    return LANGUAGE_MODEL_TASK if is_language_model else TRANSLATION_TASK


def set_recurrent_defaults(
    parser: argparse.ArgumentParser, values: dict[str, Any] = RECURRENT_VALUES
) -> None:
    """Make a recurrent model's limit of the gradient's norm the default of `--clip-norm`.

    Args:
        parser: the parser that fairseq passes to a model.
        values: the model's own.
    """
    parser.set_defaults(clip_norm=values["optimization.clip_norm"])


def report(cfg: DictConfig) -> str:
    """Report in one line which of the paper's defaults are in force and which were changed.

    Args:
        cfg: fairseq's whole configuration.
    """
    kept, changed = [], []
    for key, value in values_of(*names_of(cfg)).items():
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
    return "; ".join(parts)
