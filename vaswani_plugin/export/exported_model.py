"""What all exports share: checks of the model and its weights, and a bundle's files."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vaswani_plugin.inference.bundle import TRANSFORMER
from vaswani_plugin.inference.checkpoints import Checkpoint
from vaswani_plugin.inference.safetensors_file import Weights
from vaswani_plugin.model.architectures import ARCHITECTURES
from vaswani_plugin.model.configuration import Configuration, head_sizes
from vaswani_plugin.text.settings import (
    CARD,
    MODEL,
    SETTINGS,
    AnySettings,
    Settings,
    read_settings,
)

_BINARIZED = re.compile(r"[^.]+\.([^.-]+)-([^.-]+)\..+")


def model_options(state: Checkpoint) -> dict[str, Any]:
    """The model's part of a checkpoint's configuration, for a translation model of ours.

    Raises:
        ValueError: the checkpoint holds another model.
    """
    section = (state.get("cfg") or {}).get("model")
    options = section if isinstance(section, dict) else {}
    arch = options.get("_name") or "another model"
    if arch != TRANSFORMER and arch not in {row.name for row in ARCHITECTURES}:
        raise ValueError(f"it holds {arch}; export takes a {TRANSFORMER}")
    return options


def require_finite(weights: Weights) -> None:
    """Refuse weights that are NaN or infinite.

    Raises:
        ValueError: names the weight.
    """
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise ValueError(
                f"{name} holds NaN or infinity: the training has diverged; use an earlier one"
            )


def departures(sizes: Any) -> list[str]:
    """The options of the layers that no other program has, as flags with their values.

    Args:
        sizes: `Configuration`, or a configuration with the same names.
    """
    found = []
    if sizes.attention_window:
        found.append(f"--attention-window {sizes.attention_window}")
    if sizes.attention_scale != "sqrt":
        found.append(f"--attention-scale {sizes.attention_scale}")
    if sizes.next_word:
        found.append("--next-word")
    return found


def uneven_heads(sizes: Configuration) -> list[str]:
    """The flags of heads whose widths don't add up to d_model, as one text; [] where they do."""
    d_k, d_v = head_sizes(sizes)
    if d_k * sizes.heads == d_v * sizes.heads == sizes.d_model:
        return []
    return [f"--d-k {d_k} --d-v {d_v} --heads {sizes.heads} with --d-model {sizes.d_model}"]


def other_bundle_files(folder: Path, settings: AnySettings) -> list[Path]:
    """The files of a bundle beside the weights, its model card included if it has one."""
    names = [*settings.files(), SETTINGS]
    if (folder / CARD).is_file():
        names.append(CARD)
    return [folder / name for name in names if name != MODEL]


def translation_settings(folder: Path) -> Settings:
    """The settings of a translation model's bundle.

    Raises:
        ValueError: the folder is no such bundle; names it.
    """
    settings = read_settings(folder)
    if not isinstance(settings, Settings):
        raise ValueError(f"{folder} is not a bundle of a translation model")
    return settings


def languages_of_data(folder: Path, task: Mapping[str, Any]) -> tuple[str, str]:
    """Source and target language of a data folder, from the task's options or the files' names.

    Args:
        folder: the folder of the dictionaries.
        task: options of the task.

    Raises:
        ValueError: neither gives the languages.
    """
    given = task.get("source_lang"), task.get("target_lang")
    named = (_BINARIZED.fullmatch(path.name) for path in sorted(folder.iterdir()))
    pairs = (match.groups() for match in named if match)
    found = given if all(given) else next(pairs, None)
    if found is None:
        raise ValueError(
            f"neither the checkpoint nor the files of {folder} name its languages; give a bundle, "
            f"or the folder that fairseq-preprocess wrote"
        )
    return found
