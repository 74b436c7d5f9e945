"""Checkpoints in, models of `modules` out: from a bundle, or with the data of their training.

Sizes are compared with the weights before memory is taken; every error is one of the file.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vaswani_plugin.errors import CheckpointError, UserError
from vaswani_plugin.inference.bundle import (
    PARSING_TASK,
    TASK,
    TRANSFORMER,
    ForeignModel,
    wrong_kind,
)
from vaswani_plugin.inference.checkpoints import load_checkpoint, untrusted
from vaswani_plugin.model.architectures import FAMILIES, names_of
from vaswani_plugin.model.build import WithoutInitialWeights, accelerated, build_named
from vaswani_plugin.model.configuration import (
    CONFIGURATIONS,
    Checkpointed,
    Configuration,
)
from vaswani_plugin.text.dictionary import (
    TEXT_DICTIONARY,
    Dictionary,
    dictionary_name,
    languages_of,
)
from vaswani_plugin.text.settings import AnySettings, Settings, TextSettings, TreeSettings

DIGESTS = "dictionary_sha256"
"""Where a task's part of a checkpoint has the digests of its dictionaries, by side."""
TASKS: dict[type[AnySettings], tuple[str, ...]] = {
    Settings: (TASK, "translation"),
    TreeSettings: (PARSING_TASK,),
    TextSettings: ("vaswani_language_modeling", "language_modeling"),
}
"""The tasks that train the model of a bundle, by the type of its settings."""


class Loaded(NamedTuple):
    """A model in evaluation mode, on the CPU, and what is known of it.

    A language model has one dictionary, which stands for both, and no languages.
    """

    model: Any
    sizes: Checkpointed
    source: Dictionary
    target: Dictionary
    task: Mapping[str, Any]
    languages: tuple[str, str] | None


def load_model(
    path: Path,
    data: Path,
    kind: type[AnySettings] = Settings,
    languages: tuple[str, str] | None = None,
) -> Loaded:
    """Load a checkpoint's model and its dictionaries.

    Args:
        path: the checkpoint.
        data: the folder of its dictionaries.
        kind: of the settings of a bundle with such a model.
        languages: of the dictionaries, source and target; None: as the checkpoint says.

    Raises:
        ForeignModel: only fairseq builds this model, or knows its task.
        ValueError: the checkpoint can't be used, is of another kind or has other dictionaries.
    """
    for needed in (path, data):
        if not needed.exists():
            raise FileNotFoundError(f"{needed} does not exist")
    with untrusted(path):
        state = load_checkpoint(path)
        cfg = state.get("cfg")
        options, task = map((cfg if isinstance(cfg, Mapping) else {}).get, ("model", "task"))
        if not (isinstance(options, Mapping) and isinstance(task, Mapping)):
            # It was registered without a dataclass.
            raise ForeignModel(f"{path} holds flags of a model")
        trained_by = task.get("_name")
        held = next((each for each, names in TASKS.items() if trained_by in names), None)
        if held is None:
            raise ForeignModel(f"{path} holds a model of the task {trained_by!r}")
        if held is not kind:
            raise wrong_kind(f"{path} (--task {trained_by})", held, kind)
        reads_text = kind is TextSettings
        families = (f for f in FAMILIES if (f.task in TASKS[TextSettings]) == reads_text)
        name = options.get("_name")
        family = next((f.model for f in families if name in names_of(f.model)), None)
        if family is None:
            raise ForeignModel(f"{path} holds {name!r}")
        weights, of_task = state["model"], task
        if reads_text:
            target = source = Dictionary.load(data / TEXT_DICTIONARY)
            digests = {"target": target.digest()}
            if task.get("add_bos_token"):
                raise UserError(
                    f"{path} was trained with --add-bos-token, which only fairseq's own commands "
                    "know: let fairseq-eval-lm score it"
                )
            task = {**task, "tokens_per_sample": int(task["tokens_per_sample"])}
            positions = options.get("max_target_positions") or task["tokens_per_sample"]
            options, of_task = {**options, "max_target_positions": positions}, {}
            weights = {key.removeprefix("decoder."): value for key, value in weights.items()}
        else:
            if languages is None:
                languages = _languages(path, task, data)
            source, target = (Dictionary.load(data / dictionary_name(side)) for side in languages)
            digests = {"source": source.digest(), "target": target.digest()}
        refuse_other_dictionaries(data, state.get("task_state") or {}, digests)
        sizes = CONFIGURATIONS[family].from_checkpoint(options, of_task)
        model = make_model(family, sizes, source, target, weights, path)
        return Loaded(model, sizes, source, target, task, languages)


def _languages(path: Path, task: Mapping[str, Any], data: Path) -> tuple[str, str]:
    source, target = task.get("source_lang"), task.get("target_lang")
    # Without --source-lang, fairseq-train finds them by the names of the files.
    languages = (source, target) if source and target else languages_of(data)
    if languages is None:
        raise UserError(f"neither {path} nor the names in {data} say one pair of languages")
    return languages


def make_model(
    family: str,
    sizes: Checkpointed,
    source: Dictionary,
    target: Dictionary,
    weights: Mapping[str, Tensor],
    path: Path,
) -> Any:
    """Build a model with a checkpoint's weights, in evaluation mode; no initial ones are drawn."""
    words = None
    if isinstance(sizes, Configuration):
        is_pair = family == TRANSFORMER
        layers = {"encoder.": sizes.encoder_layers} if is_pair else {}
        layers["decoder." if is_pair else ""] = sizes.decoder_layers
        for side, count in layers.items():  # before as many are made
            if count > 0 and not any(k.startswith(f"{side}layers.{count - 1}.") for k in weights):
                raise UserError(
                    f"{path} should hold {count} layers of the {side[:-1] or 'decoder'}"
                )
        if sizes.next_word and is_pair:
            from vaswani_plugin.search.well_formed import Grammar  # translations have none

            grammar = Grammar(source, target)
            words = grammar.ends_word, grammar.is_word
    make = partial(build_named, family, sizes, source, target, words)
    with mismatches_explained(str(path)), WithoutInitialWeights():
        with torch.device("meta"):
            make().load_state_dict(weights, assign=True)
        model = make()
        model.load_state_dict(weights)
    return accelerated(model.eval())


def refuse_other_dictionaries(
    folder: str | Path, task_state: Mapping[str, Any], digests: Mapping[str, str]
) -> None:
    """Refuse dictionaries that differ from those of the training, even if their sizes agree.

    `task_state` is the task's part of the checkpoint; digests are by side: "source" or "target".
    """
    trained_with = task_state.get(DIGESTS) or {}
    for side, digest in digests.items():
        if trained_with.get(side, digest) != digest:
            raise UserError(
                f"the {side} dictionary of {folder} is not the one that the checkpoint was trained "
                f"with; give the data folder (its dict.*.txt) it was trained on"
            )


@contextmanager
def mismatches_explained(files: str) -> Iterator[None]:
    """Turn PyTorch's error about weights that don't fit into one line with the files' names.

    Raises:
        CheckpointError: the weights don't fit the model. Other errors pass unchanged.
    """
    try:
        yield
    except Exception as error:
        # fairseq's Trainer raises a bare Exception while it handles PyTorch's RuntimeError
        cause: BaseException | None = error
        while cause is not None and "Error(s) in loading state_dict" not in str(cause):
            cause = cause.__context__
        if cause is None:
            raise
        first = str(cause).partition("\n")[2].strip().partition("\n")[0][:300]
        raise CheckpointError(
            f"checkpoint {files} does not fit this model ({first}): give the data folder (its "
            "dict.*.txt), the --arch and the sizes that it was trained with, or another --save-dir"
        ) from error
