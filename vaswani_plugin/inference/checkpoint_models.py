"""Loads a checkpoint's encoder-decoder, from a bundle or with the data of its training."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from vaswani_plugin.errors import CheckpointError, UserError
from vaswani_plugin.inference.bundle import (
    TASK,
    TRANSFORMER,
    USE_FAIRSEQ,
    Bundle,
    ForeignModel,
)
from vaswani_plugin.inference.checkpoints import Checkpoint, load_checkpoint, untrusted
from vaswani_plugin.model.acceleration import accelerated
from vaswani_plugin.model.architectures import names_of
from vaswani_plugin.model.build import build, build_recurrent
from vaswani_plugin.model.configuration import (
    AttentionLSTMConfiguration,
    Configuration,
    RecurrentConfiguration,
    Seq2SeqConfiguration,
)
from vaswani_plugin.modules.recurrent import RecurrentEncoderDecoder
from vaswani_plugin.modules.transformer import EncoderDecoder
from vaswani_plugin.search.well_formed import Grammar
from vaswani_plugin.text.dictionary import Dictionary, dictionary_name, languages_of
from vaswani_plugin.text.linearization import JOINT, MAX_OPENINGS
from vaswani_plugin.text.settings import weights_path

Model = TypeVar("Model", bound=nn.Module)

DIGESTS = "dictionary_sha256"
"""Where a task's part of a checkpoint has the digests of its dictionaries, by side."""


RECURRENT_SIZES: dict[str, type[RecurrentConfiguration]] = {
    "vaswani_seq2seq_lstm": Seq2SeqConfiguration,
    "vaswani_attention_lstm": AttentionLSTMConfiguration,
}


class Parts(NamedTuple):
    """The sizes of a model, and its dictionaries."""

    sizes: Configuration
    source: Dictionary
    target: Dictionary


class Loaded(NamedTuple):
    """A Transformer in evaluation mode, on the CPU, its configuration and its dictionaries."""

    model: EncoderDecoder
    sizes: Configuration
    source: Dictionary
    target: Dictionary


class LoadedRecurrent(NamedTuple):
    """The same of a recurrent model."""

    model: RecurrentEncoderDecoder
    sizes: RecurrentConfiguration
    source: Dictionary
    target: Dictionary


def longest_of(sizes: Configuration | RecurrentConfiguration) -> tuple[int, int]:
    """Longest source and target of a model in tokens, the ends of sentence included."""
    return sizes.max_source_positions, sizes.max_target_positions


def load_from_bundle(bundle: Bundle) -> Loaded | LoadedRecurrent:
    """See `Bundle.load_model`."""
    path = weights_path(bundle.folder)
    with untrusted(path):
        state = load_checkpoint(path)
        cfg = read_configuration(path, state)
        bundle.require_task(cfg["task"].get("_name"))
        return _build(path, state, bundle.folder, bundle.languages)


def _build(
    path: Path, state: Checkpoint, folder: Path, languages: tuple[str, str]
) -> Loaded | LoadedRecurrent:
    family = family_of(path, state["cfg"]["model"], (TRANSFORMER, *RECURRENT_SIZES))
    if family == TRANSFORMER:
        parts = read_parts(state, folder, languages)
        return Loaded(make_transformer(*parts, state["model"], path), *parts)
    cfg = RECURRENT_SIZES[family].from_checkpoint(state["cfg"]["model"], state["cfg"]["task"])
    source, target = load_dictionaries(state, folder, languages)
    model = with_weights(lambda: build_recurrent(cfg, source, target), state["model"], path)
    return LoadedRecurrent(model, cfg, source, target)


def load_with_data(path: Path, data: Path) -> tuple[Loaded | LoadedRecurrent, tuple[str, str]]:
    """Load the model and its dictionaries, and its source and target language.

    Args:
        path: the checkpoint.
        data: folder of the dictionaries.

    Raises:
        ForeignModel: the model is none of this plugin's, belongs to another task, or doesn't say
            its languages.
        FileNotFoundError: the file or the folder is missing.
        ValueError: the checkpoint can't be used, or was trained with other dictionaries.
    """
    for needed in (path, data):
        if not needed.exists():
            raise FileNotFoundError(f"{needed} does not exist")
    with untrusted(path):
        state = load_checkpoint(path)
        cfg = read_configuration(path, state)
        task = cfg["task"]
        source, target = task.get("source_lang"), task.get("target_lang")
        # If fairseq-train was not told, it found them by the names of the files.
        languages = (source, target) if source and target else languages_of(data)
        family_of(path, cfg["model"], (TRANSFORMER, *RECURRENT_SIZES))
        if task.get("_name") not in (TASK, "translation"):
            raise ForeignModel(f"{path} has the task {task.get('_name')!r}{USE_FAIRSEQ}")
        if languages is None:
            raise ForeignModel(f"neither {path} nor the names in {data} say one pair of languages")
        return _build(path, state, data, languages), languages


def read_parts(state: Checkpoint, folder: Path, languages: tuple[str, str]) -> Parts:
    """Read what a checkpoint's Transformer is built from, beside its weights.

    Args:
        state: the checkpoint.
        folder: of the dictionaries.
        languages: source and target language, as in the names of the dictionaries.

    Raises:
        ValueError: a dictionary can't be used or is another one than in training, or a size has
            the wrong type.
        OSError: a dictionary can't be read.
    """
    cfg = state["cfg"]
    dictionaries = load_dictionaries(state, folder, languages)
    return Parts(Configuration.from_checkpoint(cfg["model"], cfg["task"]), *dictionaries)


def load_dictionaries(
    state: Checkpoint, folder: Path, languages: tuple[str, str]
) -> tuple[Dictionary, Dictionary]:
    """The dictionaries of source and target; see `read_parts`."""
    source, target = (Dictionary.load(folder / dictionary_name(side)) for side in languages)
    check_digests(folder, state, source=source, target=target)
    return source, target


def check_digests(folder: Path, state: Checkpoint, **dictionaries: Dictionary) -> None:
    """`refuse_other_dictionaries` for a checkpoint and dictionaries by side."""
    digests = {side: dictionary.digest() for side, dictionary in dictionaries.items()}
    refuse_other_dictionaries(folder, state.get("task_state") or {}, digests)


def read_configuration(path: Path, state: Checkpoint) -> Mapping[str, Any]:
    """A checkpoint's configuration, with the sections "model" and "task".

    Raises:
        ForeignModel: a section is missing; models that were registered without a dataclass have
            flags instead.
    """
    cfg = state.get("cfg")
    if isinstance(cfg, Mapping):
        if all(isinstance(cfg.get(part), Mapping) for part in ("model", "task")):
            return cfg
    raise ForeignModel(f"{path} holds flags of a model that only fairseq builds{USE_FAIRSEQ}")


def family_of(path: Path, model: Mapping[str, Any], families: Iterable[str]) -> str:
    """The family of a checkpoint's model.

    Args:
        path: the checkpoint, for messages.
        model: the model's part of its configuration.
        families: of models, such as "vaswani_transformer".

    Raises:
        ForeignModel: it is of another one.
    """
    name = model.get("_name")
    found = next((family for family in families if name in names_of(family)), None)
    if found is None:
        raise ForeignModel(f"{path} holds {name!r}, which only fairseq builds{USE_FAIRSEQ}")
    return found


def require_layers(path: Path, weights: Mapping[str, Tensor], **layers: int) -> None:
    """Refuse a checkpoint that lacks weights of its layers, before any layer is built.

    A broken file may state any number of layers.

    Args:
        path: the checkpoint, for messages.
        weights: by the names of a checkpoint.
        layers: their number by side, "encoder" or "decoder".

    Raises:
        UserError: the last layer has no weights.
    """
    for side, count in layers.items():
        if count > 0 and not any(k.startswith(f"{side}.layers.{count - 1}.") for k in weights):
            raise UserError(
                f"{path} should hold {count} layers of the {side} and holds fewer: copy it again, "
                f"or use another one"
            )


def make_transformer(
    sizes: Configuration,
    source: Dictionary,
    target: Dictionary,
    weights: Mapping[str, Tensor],
    path: Path,
) -> EncoderDecoder:
    """Build a model with these weights, in evaluation mode.

    Args:
        sizes: of the model.
        source: dictionary.
        target: dictionary.
        weights: by the names of a checkpoint.
        path: the checkpoint, for messages.

    Raises:
        ValueError: sizes, dictionaries and weights don't fit together.
    """
    require_layers(path, weights, encoder=sizes.encoder_layers, decoder=sizes.decoder_layers)
    words = None
    if sizes.next_word:
        grammar = Grammar(source, target, JOINT, MAX_OPENINGS)
        words = grammar.ends_word, grammar.is_word
    return with_weights(lambda: build(sizes, source, target, words), weights, path)


def with_weights(make: Callable[[], Model], weights: Mapping[str, Tensor], path: Path) -> Model:
    """Build a model with these weights, in evaluation mode.

    A few bytes may claim any sizes: they are compared with the weights' own before memory is taken.

    Args:
        make: makes the model.
        weights: by the names of a checkpoint.
        path: the checkpoint, for messages.

    Raises:
        CheckpointError: sizes and weights don't fit together.
    """
    with mismatches_explained(str(path)):
        with torch.device("meta"):
            make().load_state_dict(weights, assign=True)
        model = make()
        model.load_state_dict(weights)
    return accelerated(model).eval()


def refuse_other_dictionaries(
    folder: str | Path, task_state: Mapping[str, Any], digests: Mapping[str, str]
) -> None:
    """Refuse dictionaries that differ from those of the training, even if their sizes agree.

    Args:
        folder: of the dictionaries, for the message.
        task_state: the task's part of the checkpoint; one without digests fits any dictionary.
        digests: of the dictionaries, by side: "source" or "target".

    Raises:
        UserError: a dictionary has other words, or the same words in another order.
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
    """Turn PyTorch's error about weights that don't fit into a `CheckpointError`.

    Args:
        files: the checkpoints' names, for the message.

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
        raise CheckpointError(f"checkpoint {files} {mismatch_reason(str(cause))}") from error


def mismatch_reason(text: str) -> str:
    """Find the reason in PyTorch's message: another dictionary, or another architecture.

    Args:
        text: the message of `load_state_dict`.

    Returns:
        The reason and the remedy, to be read after the checkpoint's name.
    """
    size = r"torch\.Size\(\[([\d, ]*)\]\)"
    sizes = re.findall(rf"size mismatch for (\S+): .*?{size}[^[]*{size}", text)
    shapes = [[tuple(map(int, s.split(","))) for s in pair if s] for _, *pair in sizes]
    rows = {(a[0], b[0]) for a, b in shapes if a[1:] == b[1:] and len(a) == 2}
    listed = re.search(r"(Missing|Unexpected) key\(s\) in state_dict: \"([^\"]+)\"", text)
    of_words = not any("position" in name for name, *_ in sizes)
    if of_words and len(rows) == 1 and listed is None and all(len(a) == 2 for a, _ in shapes):
        theirs, ours = rows.pop()
        return (
            f"was trained with a dictionary of {theirs} entries, the data folder's has {ours}:"
            " give the data folder (its dict.*.txt) that the checkpoint was trained on"
        )
    if sizes:
        name, theirs, ours = sizes[0]
        first = f"{name} is [{theirs}] in the file and [{ours}] in the model"
    else:
        first = f"{listed[1].lower()} key {listed[2]}" if listed else " ".join(text.split())[:200]
    return (
        f"does not fit this model ({first}): give the --arch and sizes that it was trained with,"
        " or another --save-dir"
    )
