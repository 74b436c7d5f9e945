"""Checkpoint files in, models of `modules` out, without running a file's code.

A checkpoint may come from somebody else. PyTorch's restricted unpickler builds only tensors, plain
containers and `HARMLESS_GLOBALS`. PyTorch writes a zip archive with a CRC-32 of each tensor, but
doesn't check the sums as it reads: a flipped bit changes a weight. Python's own zip reader does.

`model.safetensors` holds the weights alone, and `config.json` beside it the rest of the model: the
model's and the task's options, the state of the task, the names of weights that share memory (tied
embeddings, section 3.4), and the SHA-256 sum of model.safetensors.
"""

import argparse
import contextlib
import hashlib
import os
import pickle
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_json
from vaswani_plugin.model import families
from vaswani_plugin.model.build import WithoutInitialWeights, accelerated
from vaswani_plugin.model.families import Family
from vaswani_plugin.text.dictionary import Dictionary, dictionary_names
from vaswani_plugin.text.languages import trained_languages
from vaswani_plugin.text.settings import (
    CONFIG,
    AnySettings,
    Settings,
    TextSettings,
    TreeSettings,
    wrong_kind,
)

Checkpoint = dict[str, Any]

_MULTIARRAY: Any = np._core.multiarray if hasattr(np, "_core") else np.core.multiarray  # type: ignore[attr-defined]
_NUMBERS = "bool uint8 int8 int16 int32 int64 float16 float32 float64".split()
HARMLESS_GLOBALS: tuple[Any, ...] = (
    # a model that is registered without a dataclass keeps its flags in a Namespace
    argparse.Namespace,
    # --eval-bleu keeps its sums as numpy scalars and arrays of numbers
    np.ndarray,
    np.dtype,
    *(type(np.dtype(number)) for number in _NUMBERS),
    *(
        (getattr(_MULTIARRAY, name), f"numpy.{module}.multiarray.{name}")
        for name in ("scalar", "_reconstruct")
        for module in ("core", "_core")  # as numpy 1 and numpy 2 write them
    ),
)
"""For `add_safe_globals`: classes and functions, some with their names in files."""

_ARCHIVE_START = b"PK\x03\x04"
_PICKLE_START = b"\x80"  # files of PyTorch before 1.6, which hold no checksums


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a fairseq checkpoint to the CPU: a dictionary, whose "model" maps names to tensors.

    A `.safetensors` file needs its config.json beside it. A `UserError` names a file that would run
    code, is damaged, or is no fairseq checkpoint.
    """
    if path.suffix == ".safetensors":
        return _load_safetensors(path)
    if wrong := damage(path):  # PyTorch does not notice flipped bits
        raise UserError(f"{path}: it {wrong}; copy it again or use another one")
    torch.serialization.add_safe_globals(list(HARMLESS_GLOBALS))
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(f"{path}: it {why_unreadable(error)}") from error
    if not (isinstance(state, dict) and state.get("model")):
        raise UserError(f"{path}: no fairseq checkpoint: it holds no model")
    languages = (state.get("task_state") or {}).get(LANGUAGES)  # also where no flag told them
    if languages and state.get("cfg"):
        state["cfg"]["task"] |= dict(zip(("source_lang", "target_lang"), languages, strict=True))
    return state


def updates_of(state: Mapping[str, Any]) -> int | None:
    """The update after which a checkpoint was saved; None where it doesn't say."""
    history: list[dict[str, int]] = state.get("optimizer_history") or [{}]
    return history[-1].get("num_updates")


def why_unreadable(error: Exception) -> str:
    """The rest of a sentence that starts with a checkpoint's name."""
    foreign = re.search(r"GLOBAL (\w[\w.]*)", str(error)[:2000])
    if isinstance(error, pickle.UnpicklingError) and foreign:
        return (
            f"is refused: it would call {foreign[1]}, which is no data of a model (nothing of it "
            "was run); use a checkpoint that fairseq-train wrote"
        )
    return "is truncated, or no checkpoint at all; copy it again or use another one"


def damage(path: str | os.PathLike[str]) -> str | None:
    """The rest of a sentence that starts with the name of a damaged file of `torch.save`.

    None where each checksum is right, and for a file of PyTorch before 1.6.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                wrong = archive.testzip()
            return wrong and f"is not as it was saved (the sum of {wrong} is wrong)"
    except Exception as error:  # damaged headers give errors of any kind
        return f"is not as it was saved ({error})"
    with open(path, "rb") as file:
        start = file.read(len(_ARCHIVE_START))
    if not start:
        return "is empty"
    if start.startswith(_PICKLE_START):
        return None
    return "is truncated" if start == _ARCHIVE_START else "is no checkpoint"


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """A `UserError` within it names the file."""
    try:
        yield
    except UserError as error:
        if str(path) in str(error):
            raise
        raise UserError(f"{path}: {error}") from error


def _load_safetensors(path: Path) -> Checkpoint:
    """Read a model that `save_safetensors` wrote; shared weights are one tensor."""
    from safetensors.torch import load_file

    described = path.with_name(CONFIG)
    if not described.is_file():
        raise UserError(f"{described} does not exist: the weights need it beside them; copy both")
    config = read_json(described, "copy it again")
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != config["sha256"]:
        raise UserError(f"{path}: damaged, or not that of its {CONFIG}: copy both again")
    tensors = load_file(path)
    weights = tensors | {name: tensors[owner] for name, owner in config["shared"].items()}
    return {
        "cfg": {"model": config["model"], "task": config["task"]},
        "model": weights,
        "task_state": config["task_state"],
        "optimizer_history": [{"num_updates": config["updates"]}],
    }


DIGESTS, LANGUAGES = "dictionary_sha256", "languages"
"""Where a task's part of a checkpoint has its dictionaries' digests, by side, and its languages."""
TASKS: dict[type[AnySettings], tuple[str, ...]] = {
    Settings: (families.TRANSLATION, "translation"),
    TreeSettings: (families.PARSING,),
    TextSettings: (families.LANGUAGE_MODELING, "language_modeling"),
}
"""The tasks that train the model of a bundle, by the type of its settings."""


class ForeignModel(UserError):
    """A checkpoint with a model that only fairseq builds; `reason` names the file and the model."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}, which only fairseq builds: fairseq-interactive translates with it, "
            "fairseq-eval-lm scores by it, and `vaswani import` takes fairseq's own Transformer"
        )


class Loaded(NamedTuple):
    """A model in evaluation mode, on the CPU, and what is known of it.

    A language model has one dictionary, which stands for both.
    """

    model: Any
    sizes: Any  # a `Checkpointed`
    source: Dictionary
    target: Dictionary
    task: Mapping[str, Any]
    family: Family


@torch.inference_mode(False)  # weights made inside it could not be copied
def load_model(
    path: Path, data: Path, kind: type[AnySettings], dictionaries: Mapping[str, str] | None = None
) -> Loaded:
    """Load a checkpoint's model, at `path`, and its dictionaries from the folder `data`.

    Args:
        kind: of the settings of a bundle with such a model.
        dictionaries: their names by side, "source" and "target"; None: of the task's languages.

    Raises:
        UserError: the checkpoint can't be used, is of another kind or has other dictionaries;
            `ForeignModel`, if only fairseq builds this model, or knows its task.
    """
    with naming(path):
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
        family = families.family_of(str(options.get("_name")))
        if not family:
            raise ForeignModel(f"{path} holds {options.get('_name')!r}")
        weights, of_task = state["model"], task
        if kind is TextSettings:
            if task.get("add_bos_token"):
                reason = "was trained with --add-bos-token, which only fairseq-eval-lm knows"
                raise UserError(f"{path} {reason}")
            task = {**task, "tokens_per_sample": int(task["tokens_per_sample"])}
            positions = options.get("max_target_positions") or task["tokens_per_sample"]
            options, of_task = {**options, "max_target_positions": positions}, {}
            weights = {key.removeprefix("decoder."): value for key, value in weights.items()}
        dictionaries = dictionaries or dictionary_names(*trained_languages(task, data))
        sides = {side: Dictionary.load(data / name) for side, name in dictionaries.items()}
        source, target = sides.get("source", sides["target"]), sides["target"]
        digests = {side: dictionary.digest() for side, dictionary in sides.items()}
        refuse_other_dictionaries(data, state.get("task_state") or {}, digests)
        sizes: Any = family.configuration.from_checkpoint(options, of_task)
        with mismatches_explained(str(path)):
            model = make_model(family, sizes, source, target, weights)
        return Loaded(model, sizes, source, target, task, family)


def make_model(
    family: Family,
    sizes: Any,
    source: Dictionary,
    target: Dictionary,
    weights: Mapping[str, Tensor],
) -> Any:
    """Build a model with a checkpoint's weights, in evaluation mode; no initial ones are drawn."""
    options = {}
    if family.model == families.TRANSFORMER and sizes.next_word:
        from vaswani_plugin.search.well_formed import Grammar  # translations have none

        grammar = Grammar(source, target)
        options["words"] = grammar.ends_word, grammar.is_word
    # A file may name a weight, or a part of it, many times; each is to stand for its own memory.
    tensors = {(w.data_ptr(), w.shape): w for w in weights.values() if isinstance(w, Tensor)}
    data = {w.untyped_storage().data_ptr(): w.untyped_storage().nbytes() for w in tensors.values()}
    if sum(w.nbytes for w in tensors.values()) > sum(data.values()):
        raise UserError("its weights are larger than their data; use another checkpoint")
    with WithoutInitialWeights(shape for _, shape in tensors):
        model = family.build(sizes, source, target, **options)
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
                "with; give the folder of its dict.*.txt"
            )


@contextlib.contextmanager
def mismatches_explained(files: str) -> Iterator[None]:
    """Turn PyTorch's error of weights that don't fit into a `UserError` with the files' names."""
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
        raise UserError(
            f"checkpoint {files} does not fit this model ({first}): give the data folder (its "
            "dict.*.txt), the --arch and the sizes that it was trained with, or another --save-dir"
        ) from error
