"""What all exports share: checks of the model, and folders that are complete or do not exist.

`--to safetensors` needs no more than that, so it stands here.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import nn

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.bundle import TRANSFORMER
from vaswani_plugin.inference.checkpoints import Checkpoint, load_checkpoint
from vaswani_plugin.inference.safetensors_file import Weights, save_safetensors
from vaswani_plugin.model.architectures import ARCHITECTURES
from vaswani_plugin.model.configuration import Configuration, flag, head_sizes
from vaswani_plugin.modules.attention import MultiHeadAttention
from vaswani_plugin.modules.embedding import Embedding
from vaswani_plugin.modules.feed_forward import FeedForward
from vaswani_plugin.modules.language_model import LanguageModel
from vaswani_plugin.modules.layers import AddNorm, DecoderLayer, EncoderLayer
from vaswani_plugin.modules.positions import MOST_ROWS, LearnedPositions, SinusoidalPositions
from vaswani_plugin.modules.transformer import Decoder, Encoder, EncoderDecoder
from vaswani_plugin.text.dictionary import BOS, EOS, PAD
from vaswani_plugin.text.settings import (
    CARD,
    MODEL,
    SAFETENSORS,
    SETTINGS,
    AnySettings,
    Settings,
    read_settings,
    weights_path,
)

EXPRESSED = frozenset(
    (
        *("d_model", "d_ff", "encoder_layers", "decoder_layers", "heads", "d_k", "d_v"),
        *("dropout", "attention_dropout", "activation_dropout", "positions", "share_embeddings"),
        *("attention_window", "attention_scale", "next_word", "layer_norm_eps"),
        *("max_source_positions", "max_target_positions"),
    )
)
"""The options that exports know: each either writes or refuses one."""
KNOWN_MODULES = (
    *(EncoderDecoder, Encoder, Decoder, LanguageModel),
    *(EncoderLayer, DecoderLayer, MultiHeadAttention, FeedForward, AddNorm, Embedding),
    *(SinusoidalPositions, LearnedPositions, nn.Linear, nn.LayerNorm, nn.ModuleList),
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


def require_known_modules(model: nn.Module) -> None:
    """Refuse a model with a part that no export can express: they write weights, not code.

    Args:
        model: as it was built for inference.

    Raises:
        UserError: a module has another class, a method of its own or a hook; names it.
    """
    for name, module in model.named_modules():
        kind = getattr(type(module), "equals", type(module))  # a kernel equals a plain module
        place = f"the part {name or 'model'} of the model"
        if kind not in KNOWN_MODULES:
            raise UserError(f"{place} is a {kind.__name__}, which no export can express")
        # PyTorch has no public name for a module's hooks.
        if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
            raise UserError(f"{place} has a hook, which no export can express")


def unknown_options(sizes: Configuration) -> list[str]:
    """The options that came after the exports and change the model, as flags with their values."""
    return [
        f"{flag(each.name)} {getattr(sizes, each.name)}"
        for each in fields(sizes)
        if each.name not in EXPRESSED and getattr(sizes, each.name) != each.default
    ]


def departures(sizes: Configuration) -> list[str]:
    """The options of the layers that no other program has, as flags with their values."""
    found = unknown_options(sizes)
    for name in ("max_source_positions", "max_target_positions"):
        # Other programs have a table of all positions, whatever the model claims.
        if sizes.positions != "learned" and getattr(sizes, name) > MOST_ROWS:
            found.append(f"{flag(name)} {getattr(sizes, name)}")
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


def generation_defaults() -> dict[str, Any]:
    """The numbers of the special symbols for generation_config.json; padding is never written."""
    return {
        "bos_token_id": BOS,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "bad_words_ids": [[PAD]],
    }


def write_card(folder: Path, title: str, front_matter: str, description: str, use: str) -> None:
    """Write README.md of a folder for transformers."""
    text = f"---\n{front_matter}---\n\n# {title}\n\n{description}\n\n{use}\n"
    (folder / CARD).write_text(text, encoding="utf-8")


def check_new_folder(output: Path) -> None:
    """Refuse a folder that is not empty.

    Raises:
        ValueError: `output` exists and is no empty folder, or it is the current one.
    """
    if output.exists() and output.samefile("."):
        raise ValueError(f"{output} is the current folder; give the name of a new one as --output")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(f"{output} exists and is not an empty folder; give another --output")


@contextlib.contextmanager
def new_folder(output: Path) -> Iterator[Path]:
    """Context with a temporary folder; it is renamed at the end, or removed after an error.

    Args:
        output: the final name; the folder may exist if it is empty.

    Raises:
        ValueError: `output` exists and is no empty folder, or it is the current one.
        OSError: it can't be written.
    """
    check_new_folder(output)
    output = output.resolve()  # of a symbolic link, its target
    partial = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        partial.mkdir(parents=True)
        yield partial
        with contextlib.suppress(FileNotFoundError):
            output.rmdir()  # os.replace overwrites an empty folder on POSIX only
        os.replace(partial, output)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def export_to_safetensors(model: Path, output: Path) -> Path:
    """Copy a bundle of any kind of model, with its weights as safetensors and no pickled file.

    Args:
        model: the bundle.
        output: the folder to make.

    Returns:
        The file that the weights were read from.

    Raises:
        ValueError: `model` is not a bundle or can't be used, or `output` is not empty.
        OSError: a file can't be read or written.
    """
    if not model.is_dir():
        raise ValueError(f"{model} is not a bundle: make one with data-prep/bundle.py")
    settings, path = read_settings(model), weights_path(model)
    state = load_checkpoint(path)
    with new_folder(output) as folder:
        for file in other_bundle_files(model, settings):
            shutil.copyfile(file, folder / file.name)
        save_safetensors(state, folder / SAFETENSORS)
    return path
