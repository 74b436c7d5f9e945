"""The model of `vaswani lm`, `complete` and `summarize`: a bundle, or a checkpoint and its data."""

from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq import checkpoint_utils, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import FairseqLanguageModel
from omegaconf import open_dict

from vaswani_plugin import register
from vaswani_plugin.inference.untrusted import untrusted
from vaswani_plugin.text.corpus_io import InputError
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import (
    MODEL,
    SETTINGS,
    TEXT_DICTIONARY,
    TextSettings,
    read_settings_file,
)

TASKS = ("language_modeling", "vaswani_language_modeling")


@dataclass(frozen=True)
class LanguageModel:
    """A trained model, in evaluation mode, and what goes with it.

    Args:
        tokens_per_sample: with which it was trained.
        saw_lines_apart: whether it never saw a line's beginning after another line.
        loss_after: the symbol after which it learned each line alone; None: it learned all.
        longest: positions that it has.
        pipeline: between raw text and tokens; None where no preprocessing.json says it.
    """

    model: FairseqLanguageModel
    dictionary: Dictionary
    tokens_per_sample: int
    saw_lines_apart: bool
    loss_after: str | None
    longest: int
    pipeline: Pipeline | None


def load_dictionary(folder: Path) -> Dictionary:
    """dict.txt of a bundle or a data folder.

    Raises:
        ValueError: there is none.
    """
    path = folder / TEXT_DICTIONARY
    if not path.is_file():
        raise ValueError(
            f"{folder} has no {TEXT_DICTIONARY}: give what fairseq-preprocess --only-source wrote"
        )
    return Dictionary.load(str(path))


def load_model(path: Path, data: Path | None, device: torch.device) -> LanguageModel:
    """Loads a bundle, or a checkpoint that was trained with the dictionary of `data`.

    Raises:
        ValueError: it is no language model, or its dictionary is another one.
        OSError: a file can't be read.
    """
    if path.is_dir():
        folder, checkpoint = path, path / MODEL
        pipeline = load_pipeline(path)
        if data is not None and load_dictionary(data) != load_dictionary(path):
            raise ValueError(
                f"{data} was binarized with another dictionary than that of {path}: give --text, "
                f"or binarize with --srcdict {path / TEXT_DICTIONARY}"
            )
    elif data is None:
        raise ValueError(f"{path} is no bundle: --data-bin DIR has to say what its dictionary is")
    else:
        folder, checkpoint = data, path
        pipeline = load_pipeline(data) if (data / SETTINGS).is_file() else None
    register()
    with untrusted(checkpoint):
        return _load(checkpoint, folder, pipeline, device)


def load_pipeline(folder: Path) -> Pipeline:
    """Between raw text and tokens, by a bundle's or data folder's preprocessing.json.

    Raises:
        ValueError: there is none, or it is that of a translation model.
    """
    try:
        settings = read_settings_file(folder / SETTINGS)
        if not isinstance(settings, TextSettings):
            raise ValueError(f"{folder} translates: give the bundle of a language model")
        return Pipeline(settings, folder)
    except FileNotFoundError as error:
        raise ValueError(
            f"{error.filename} does not exist: {folder} is no bundle of a language model; give "
            "that, or a checkpoint with --data-bin DIR"
        ) from error
    except InputError as error:
        raise ValueError(str(error)) from error


def _load(
    path: Path, folder: Path, pipeline: Pipeline | None, device: torch.device
) -> LanguageModel:
    state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    cfg = state.get("cfg") or convert_namespace_to_omegaconf(state["args"])
    name = cfg.task._name
    if name not in TASKS:
        raise ValueError(
            f"{path} was trained by --task {name}: a language model is needed "
            f"(--task {' or '.join(TASKS)})"
        )
    if cfg.task.add_bos_token:
        raise ValueError(
            f"{path} was trained with --add-bos-token, which only fairseq's own commands know: "
            "let fairseq-eval-lm score it"
        )
    dictionary = load_dictionary(folder)
    with open_dict(cfg.task):
        cfg.task.data = str(folder)
    task = tasks.setup_task(cfg.task, from_checkpoint=True)
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
        [str(path)], task=task, state=state
    )
    return LanguageModel(
        model=model.to(device).eval(),
        dictionary=dictionary,
        tokens_per_sample=int(cfg.task.tokens_per_sample),
        saw_lines_apart=str(cfg.task.sample_break_mode) == "eos",
        loss_after=cfg.task.get("loss_after"),
        longest=int(model.max_positions()),
        pipeline=pipeline,
    )
