"""The files of a language model, and its model if it is one of this plugin's.

A model is a bundle, or a checkpoint with the folder of the data that it was trained on.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.bundle import KINDS
from vaswani_plugin.inference.checkpoint_models import (
    check_digests,
    family_of,
    read_configuration,
    require_layers,
    with_weights,
)
from vaswani_plugin.inference.checkpoints import load_checkpoint, untrusted
from vaswani_plugin.model.build import (
    build_language_model,
    build_one_layer,
    build_recurrent_language_model,
)
from vaswani_plugin.model.configuration import (
    Configuration,
    OneLayerConfiguration,
    RecurrentLanguageModelConfiguration,
)
from vaswani_plugin.search.models import TextModel
from vaswani_plugin.text.dictionary import TEXT_DICTIONARY, Dictionary, load_text_dictionary
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import SETTINGS, TextSettings, read_settings_file, weights_path

TASKS = ("language_modeling", "vaswani_language_modeling")
FAMILIES = ("vaswani_lm", "vaswani_lm_one_layer", "vaswani_lm_lstm")


class LoadedText(NamedTuple):
    """A language model in evaluation mode, on the CPU, and what is known of it."""

    model: TextModel
    dictionary: Dictionary
    task: "TextTask"
    sizes: Configuration | None
    """Of a Transformer; None of other models."""


@dataclass(frozen=True)
class TextTask:
    """How a language model was trained to read text.

    Args:
        tokens_per_sample: length of a training window in tokens.
        saw_lines_apart: each training sample was a single line, without earlier lines as context.
        loss_after: only the tokens after this symbol counted in the loss of a line; None: all did.
    """

    tokens_per_sample: int
    saw_lines_apart: bool = False
    loss_after: str | None = None

    @classmethod
    def of(cls, task: Mapping[str, Any], path: Path) -> "TextTask":
        """Read a checkpoint's configuration of the task.

        Args:
            task: the configuration.
            path: of the checkpoint, for messages.

        Raises:
            UserError: it is another task, or one with options that only fairseq knows.
        """
        name = task.get("_name")
        if name not in TASKS:
            raise UserError(
                f"{path} was trained by --task {name}: a language model is needed "
                f"(--task {' or '.join(TASKS)})"
            )
        if task.get("add_bos_token"):
            raise UserError(
                f"{path} was trained with --add-bos-token, which only fairseq's own commands know: "
                "let fairseq-eval-lm score it"
            )
        return cls(
            tokens_per_sample=int(task["tokens_per_sample"]),
            saw_lines_apart=str(task.get("sample_break_mode")) == "eos",
            loss_after=task.get("loss_after"),
        )


@dataclass(frozen=True)
class LanguageFiles:
    """Where a language model's parts are.

    Args:
        checkpoint: the file.
        folder: of its dictionary.
        pipeline: between raw text and tokens; None without a preprocessing.json.
    """

    checkpoint: Path
    folder: Path
    pipeline: Pipeline | None

    @classmethod
    def find(cls, path: Path, data: Path | None = None) -> "LanguageFiles":
        """Find the files of a bundle, or of a checkpoint.

        Args:
            path: the bundle's folder, or the checkpoint.
            data: the folder of a checkpoint's data; with a bundle, data that must have the same
                dictionary.

        Raises:
            UserError: `data` is missing or has another dictionary, or the model is no language
                model.
            OSError: a file can't be read.
        """
        if path.is_dir():
            pipeline = load_text_pipeline(path)
            if data is not None and load_text_dictionary(data) != load_text_dictionary(path):
                raise UserError(
                    f"{data} was binarized with another dictionary than that of {path}: give "
                    f"--text, or binarize with --srcdict {path / TEXT_DICTIONARY}"
                )
            return cls(weights_path(path), path, pipeline)
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        if data is None:
            raise UserError(
                f"{path} is not a bundle: --data-bin DIR has to say what its dictionary is"
            )
        has_settings = (data / SETTINGS).is_file()
        return cls(path, data, load_text_pipeline(data) if has_settings else None)

    def load_model(self) -> LoadedText:
        """Load the model (on the CPU), its dictionary and its task.

        Raises:
            ForeignModel: the model is none of this plugin's.
            ValueError: the checkpoint can't be used, or was trained with another dictionary.
            OSError: a file can't be read.
        """
        path = self.checkpoint
        with untrusted(path):
            state = load_checkpoint(path)
            cfg = read_configuration(path, state)
            task = TextTask.of(cfg["task"], path)
            family = family_of(path, cfg["model"], FAMILIES)
            dictionary = load_text_dictionary(self.folder)
            check_digests(self.folder, state, target=dictionary)
            weights = {k.removeprefix("decoder."): v for k, v in state["model"].items()}
            make, positions, sizes = _builder(family, cfg["model"], task, dictionary)
            if sizes is not None:
                require_layers(path, state["model"], decoder=sizes.decoder_layers)
            decoder: Any = with_weights(make, weights, path)
            model = TextModel(decoder, positions)
        return LoadedText(model, dictionary, task, sizes)


def _builder(
    family: str, options: Mapping[str, Any], task: TextTask, dictionary: Dictionary
) -> tuple[Callable[[], nn.Module], int, Configuration | None]:
    """Return what builds a language model, its number of positions, and a Transformer's sizes.

    The number of positions is --max-target-positions, else the length of a training sample.
    """
    positions = options.get("max_target_positions") or task.tokens_per_sample
    if family == "vaswani_lm_lstm":
        recurrent = RecurrentLanguageModelConfiguration.from_checkpoint(options, {})
        return partial(build_recurrent_language_model, recurrent, dictionary), sys.maxsize, None
    if family == "vaswani_lm_one_layer":
        one_layer = OneLayerConfiguration.from_checkpoint(options, {})
        return partial(build_one_layer, one_layer, dictionary, positions), positions, None
    sizes = Configuration.from_checkpoint({**options, "max_target_positions": positions}, {})
    return partial(build_language_model, sizes, dictionary), positions, sizes


def load_text_pipeline(folder: Path) -> Pipeline:
    """Load the pipeline between raw text and tokens.

    Args:
        folder: a bundle or a data folder, with its preprocessing.json.

    Raises:
        UserError: there is no preprocessing.json, or it belongs to another kind of model.
        UserError: it can't be used.
    """
    try:
        settings = read_settings_file(folder / SETTINGS)
    except FileNotFoundError as error:
        raise UserError(
            f"{error.filename} does not exist: {folder} is not a bundle of a language model; give "
            "that, or a checkpoint with --data-bin DIR"
        ) from error
    if not isinstance(settings, TextSettings):
        held, _ = KINDS[type(settings)]
        raise UserError(f"{folder} holds {held}: give the bundle of a language model")
    return Pipeline(settings, folder)
