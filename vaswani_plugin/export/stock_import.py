"""Converts a checkpoint of fairseq's stock `transformer` into one of `vaswani_transformer`."""

import errno
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary, data_utils
from omegaconf import OmegaConf
from torch import nn

from vaswani_plugin.export.exported_model import require_finite
from vaswani_plugin.export.fairseq_options import MODEL, our_config, stock_options, stock_task
from vaswani_plugin.export.fairseq_transformer import (
    checkpoint_of,
    import_weights,
    recognize_sinusoids,
)
from vaswani_plugin.fairseq_plugin.configurations import VaswaniTransformerConfig
from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer
from vaswani_plugin.fairseq_plugin.tasks.translation import (
    VaswaniTranslationConfig,
    VaswaniTranslationTask,
)
from vaswani_plugin.inference.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from vaswani_plugin.inference.safetensors_file import updates_of
from vaswani_plugin.inference.untrusted import untrusted

TASK = "vaswani_translation"


def import_stock(
    checkpoint: Path,
    data_bin: Path,
    output: Path,
    source_lang: str | None = None,
    target_lang: str | None = None,
) -> dict[str, Any]:
    """Read a stock checkpoint, convert it and write it.

    Args:
        checkpoint: a checkpoint of fairseq's `transformer`.
        data_bin: folder of the dictionaries that the model was trained with.
        output: the file to write.
        source_lang: source language; None: from the checkpoint or the dictionaries' names.
        target_lang: target language; None: likewise.

    Returns:
        The configuration of the model.

    Raises:
        ValueError: the checkpoint can't be used, our model can't express it, the dictionaries are
            not those of the training, or `output` is a folder or the checkpoint; names the file.
        OSError: a file can't be read or written.
    """
    if output.is_dir():
        raise ValueError(f"--output {output} is a folder; name a file in it")
    if output.exists() and output.samefile(checkpoint):
        raise ValueError(f"--output {output} is the checkpoint itself and would be lost")
    state = load_checkpoint(checkpoint)
    with untrusted(checkpoint):
        imported, config = convert(state, data_bin, source_lang, target_lang)
    output.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(imported, output)
    return config


def convert(
    state: Checkpoint, data_bin: Path, source_lang: str | None, target_lang: str | None
) -> tuple[Checkpoint, dict[str, Any]]:
    """The checkpoint as one of ours, and the model's configuration.

    Arguments and errors are those of `import_stock`.
    """
    options = stock_options(state)
    config = our_config(options)
    require_finite(state["model"])
    languages = {"source_lang": source_lang, "target_lang": target_lang}
    task_options = {
        **stock_task(state),
        **{name: language for name, language in languages.items() if language},
        "max_source_positions": config["max_source_positions"],
        "max_target_positions": config["max_target_positions"],
    }
    task = make_task(data_bin, task_options)
    weights = import_weights(state, options, task.source_dictionary, task.target_dictionary)
    recognize_sinusoids(weights, config)
    with torch.device("meta"):  # checks that it fits, without initializing weights
        cfg = OmegaConf.structured(VaswaniTransformerConfig(**config))
        model = VaswaniTransformer.build_model(cfg, task)
    nn.Module.load_state_dict(model, weights, assign=True)
    imported = checkpoint_of(
        weights,
        {"_name": MODEL, **config},
        {
            "_name": TASK,
            "data": str(data_bin),
            **task_options,
            "source_lang": task.cfg.source_lang,
            "target_lang": task.cfg.target_lang,
        },
        updates_of(state) or 0,
        task.state_dict(),
    )
    return imported, config


def make_task(data_bin: Path, options: dict[str, Any]) -> VaswaniTranslationTask:
    """The task over the dictionaries of a folder.

    Args:
        data_bin: the folder; its files' names give the languages that `options` lacks.
        options: options of the task.

    Raises:
        ValueError: a language is unknown, or a file is no dictionary.
        OSError: a dictionary is missing.
    """
    if not data_bin.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "no folder with dictionaries", str(data_bin))
    found = data_utils.infer_language_pair(str(data_bin))
    languages = {
        name: options.get(name) or inferred
        for name, inferred in zip(("source_lang", "target_lang"), found, strict=True)
    }
    if None in languages.values():
        raise ValueError(
            f"neither the checkpoint nor the files of {data_bin} name its languages; "
            "`vaswani import` takes --source-lang and --target-lang"
        )
    dictionaries = [
        load_dictionary(data_bin / f"dict.{language}.txt") for language in languages.values()
    ]
    options = {**options, **languages, "data": str(data_bin)}
    return VaswaniTranslationTask(
        OmegaConf.structured(VaswaniTranslationConfig(**options)), *dictionaries
    )


def load_dictionary(path: Path) -> Dictionary:
    """Read a dictionary of fairseq's.

    Raises:
        ValueError: the file is no dictionary; names it.
        OSError: it can't be read.
    """
    path.read_bytes()  # raises OSError for a missing file
    return Dictionary.load(str(path))
