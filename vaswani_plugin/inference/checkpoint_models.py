"""Loads a checkpoint's Transformer, from a bundle or with the data of its training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from vaswani_plugin.building.acceleration import accelerated
from vaswani_plugin.building.sizes import TransformerSizes
from vaswani_plugin.checkpoint_errors import mismatches_explained
from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.bundle import ROWS, TASK, Bundle, ForeignModel
from vaswani_plugin.inference.checkpoints import Checkpoint, load_checkpoint
from vaswani_plugin.inference.transformer import TrainedTransformer
from vaswani_plugin.inference.untrusted import untrusted
from vaswani_plugin.search.well_formed import Grammar
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.linearization import MAX_OPENINGS
from vaswani_plugin.text.settings import dictionary_name, weights_path
from vaswani_plugin.text.treebank_coding import JOINT


class Loaded(NamedTuple):
    """A model in evaluation mode, on the CPU, and its dictionaries."""

    model: TrainedTransformer
    source: Dictionary
    target: Dictionary


def load_from_bundle(bundle: Bundle) -> Loaded:
    """See `Bundle.load_transformer`."""
    path = weights_path(bundle.folder)
    with untrusted(path):
        state = load_checkpoint(path)
        cfg = read_configuration(path, state)
        bundle.require_task(cfg["task"].get("_name"))
        if cfg["model"].get("_name") not in ROWS:
            name = cfg["model"].get("_name")
            raise ForeignModel(f"{path} holds {name!r}, which only fairseq builds")
        names = map(dictionary_name, bundle.languages)
        source, target = (Dictionary.load(bundle.folder / name) for name in names)
        check_digests(bundle.folder, state, source=source, target=target)
        sizes = TransformerSizes.from_configuration(cfg["model"], cfg["task"])
        model = make_transformer(sizes, source, target, state["model"], path)
    return Loaded(model, source, target)


def load_with_data(path: Path, data: Path) -> tuple[Loaded, tuple[str, str]]:
    """Load the model and its dictionaries, and its source and target language.

    Args:
        path: the checkpoint.
        data: folder of the dictionaries.

    Raises:
        ForeignModel: the model is not the Transformer of `modules`, or belongs to another task.
        FileNotFoundError: the file or the folder is missing.
        ValueError: the checkpoint can't be used, or was trained with other dictionaries.
    """
    for needed in (path, data):
        if not needed.exists():
            raise FileNotFoundError(f"{needed} does not exist")
    with untrusted(path):
        state = load_checkpoint(path)
        cfg = read_configuration(path, state)
        name, task = cfg["model"].get("_name"), cfg["task"]
        languages = task.get("source_lang"), task.get("target_lang")
        if name not in ROWS or task.get("_name") not in (TASK, "translation"):
            raise ForeignModel(f"{path} holds {name!r}, which only fairseq builds")
        if None in languages:
            raise ForeignModel(f"{path} does not say its languages, which only fairseq finds")
        source, target = (Dictionary.load(data / dictionary_name(side)) for side in languages)
        check_digests(data, state, source=source, target=target)
        sizes = TransformerSizes.from_configuration(cfg["model"], task)
        model = make_transformer(sizes, source, target, state["model"], path)
    return Loaded(model, source, target), languages


def check_digests(folder: Path, state: Checkpoint, **dictionaries: Dictionary) -> None:
    """Refuse dictionaries that differ from those of the training, even if their sizes agree.

    Args:
        folder: of the dictionaries, for messages.
        state: the checkpoint.
        dictionaries: by side, "source" or "target".

    Raises:
        UserError: a dictionary differs.
    """
    task_state = state.get("task_state") or {}
    trained_with = task_state.get("dictionary_sha256") or {}
    for side, dictionary in dictionaries.items():
        if trained_with.get(side, dictionary.digest()) != dictionary.digest():
            raise UserError(
                f"the {side} dictionary of {folder} is not the one that the checkpoint was trained "
                f"with; give the data folder (its dict.*.txt) it was trained on"
            )


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
    raise ForeignModel(f"{path} holds flags of a model that only fairseq builds")


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
    sizes: TransformerSizes,
    source: Dictionary,
    target: Dictionary,
    weights: Mapping[str, Tensor],
    path: Path,
) -> TrainedTransformer:
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
    model = TrainedTransformer(sizes, source, target, words)
    with mismatches_explained(str(path)):
        model.load_state_dict(weights)
    return accelerated(model).eval()
