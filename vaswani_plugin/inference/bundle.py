"""A bundle's model, ready to translate, without fairseq; text/settings.py says what a bundle holds.

Axes: V symbols of a dictionary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from vaswani_plugin.architectures import FAMILIES
from vaswani_plugin.building.acceleration import accelerated
from vaswani_plugin.building.sizes import TransformerSizes
from vaswani_plugin.checkpoint_errors import mismatches_explained
from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.checkpoints import Checkpoint, load_checkpoint
from vaswani_plugin.inference.transformer import TrainedTransformer
from vaswani_plugin.inference.untrusted import untrusted
from vaswani_plugin.search.well_formed import Grammar
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.linearization import MAX_OPENINGS
from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import (
    AnySettings,
    Settings,
    TextSettings,
    TreeSettings,
    dictionary_name,
    weights_path,
)
from vaswani_plugin.text.treebank_coding import JOINT, SYMBOLS, WORDS

TASK = "vaswani_translation"
PARSING_TASK = "vaswani_parsing"
KINDS = {
    Settings: ("a translation model", "vaswani translate"),
    TextSettings: ("a language model", "vaswani complete, lm and summarize"),
    TreeSettings: ("a parser", "vaswani parse"),
}
"""For each type of settings: what its bundle holds, and the commands that read it."""
TRANSFORMER = "vaswani_transformer"
ROWS = {
    TRANSFORMER,
    *(row.name for family in FAMILIES if family.model == TRANSFORMER for row in family.rows),
}
"""Names of the Transformer in a checkpoint's configuration: the model's, or a row's."""


class ForeignModel(UserError):
    """A checkpoint whose model is not the one of `modules.transformer`: fairseq has to build it."""


class Loaded(NamedTuple):
    """A model in evaluation mode, on the CPU, and its dictionaries."""

    model: TrainedTransformer
    source: Dictionary
    target: Dictionary


@dataclass(frozen=True)
class Bundle:
    """The folder and the functions between its raw text and its subwords."""

    folder: Path
    pipeline: Pipeline

    @classmethod
    def load(cls, folder: Path, kind: type[AnySettings] = Settings) -> "Bundle":
        """Read all but the model.

        Args:
            folder: of the bundle.
            kind: of settings: `Settings` for a translation model, `TreeSettings` for a parser.

        Raises:
            ValueError: the folder is not a bundle of this kind, or a file in it can't be used;
                names it.
            OSError: a file can't be read.
        """
        try:
            pipeline = Pipeline.load(folder)
        except InputError as error:
            raise ValueError(str(error)) from error
        if not isinstance(pipeline.settings, kind):
            held, commands = KINDS[type(pipeline.settings)]
            raise ValueError(
                f"{folder} holds {held}, and {KINDS[kind][0]} is needed here: {held} is for "
                f"{commands}"
            )
        return cls(folder, pipeline)

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language, as in the names of the dictionaries."""
        settings = self.pipeline.settings
        if isinstance(settings, TreeSettings):
            return WORDS, SYMBOLS
        assert isinstance(settings, Settings)
        return settings.source_language, settings.target_language

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that train such a model; the first is ours."""
        is_parser = isinstance(self.pipeline.settings, TreeSettings)
        return (PARSING_TASK,) if is_parser else (TASK, "translation")

    def require_task(self, name: Any) -> None:
        """Refuse a checkpoint of another task.

        Raises:
            ValueError: names the file, its task and what is needed.
        """
        if name not in self.tasks:
            raise ValueError(
                f"{weights_path(self.folder)} was trained by --task {name}: this bundle needs "
                f"{KINDS[type(self.pipeline.settings)][0]}"
            )

    def load_transformer(self) -> Loaded:
        """Load the model and its dictionaries, with torch alone.

        Raises:
            ForeignModel: the model is not the Transformer of `modules`.
            ValueError: the checkpoint can't be used, or was trained with other dictionaries.
            OSError: a file can't be read.
        """
        path = weights_path(self.folder)
        with untrusted(path):
            state = load_checkpoint(path)
            cfg = read_configuration(path, state)
            self.require_task(cfg["task"].get("_name"))
            if cfg["model"].get("_name") not in ROWS:
                name = cfg["model"].get("_name")
                raise ForeignModel(f"{path} holds {name!r}, which only fairseq builds")
            names = map(dictionary_name, self.languages)
            source, target = (Dictionary.load(self.folder / name) for name in names)
            check_digests(self.folder, state, source=source, target=target)
            sizes = TransformerSizes.from_configuration(cfg["model"], cfg["task"])
            model = make_transformer(sizes, source, target, state["model"], path)
        return Loaded(model, source, target)


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
