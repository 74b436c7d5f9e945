"""Loads a checkpoint's Transformer with the dictionaries of its data, with torch alone."""

from pathlib import Path

from vaswani_plugin.building.sizes import TransformerSizes
from vaswani_plugin.inference.bundle import (
    ROWS,
    TASK,
    ForeignModel,
    Loaded,
    check_digests,
    make_transformer,
    read_configuration,
)
from vaswani_plugin.inference.checkpoints import load_checkpoint
from vaswani_plugin.inference.untrusted import untrusted
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.settings import dictionary_name


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
