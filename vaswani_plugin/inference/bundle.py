"""A bundle: the folder of a model and its text pipeline; text/settings.py says what it holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.linearization import SYMBOLS, WORDS
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import (
    AnySettings,
    Settings,
    TextSettings,
    TreeSettings,
    weights_path,
)

if TYPE_CHECKING:
    from vaswani_plugin.inference.checkpoint_models import Loaded, LoadedRecurrent

TASK = "vaswani_translation"
PARSING_TASK = "vaswani_parsing"
KINDS = {
    Settings: ("a translation model", "vaswani translate"),
    TextSettings: ("a language model", "vaswani complete, lm and summarize"),
    TreeSettings: ("a parser", "vaswani parse"),
}
"""For each type of settings: what its bundle holds, and the commands that read it."""
TRANSFORMER = "vaswani_transformer"

USE_FAIRSEQ = (
    ": fairseq-interactive translates with it, fairseq-eval-lm scores by it, and `vaswani import` "
    "takes fairseq's own Transformer"
)
"""The remedy for a model that only fairseq builds."""


class ForeignModel(UserError):
    """A checkpoint whose model is none of this plugin's: fairseq has to build it."""


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
        pipeline = Pipeline.load(folder)
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

    def load_model(self) -> "Loaded | LoadedRecurrent":
        """Load the model and its dictionaries, with torch alone.

        Raises:
            ForeignModel: the model is none of this plugin's.
            ValueError: the checkpoint can't be used, or was trained with other dictionaries.
            OSError: a file can't be read.
        """
        # Importing torch takes a second, and a bundle for CTranslate2 needs none.
        from vaswani_plugin.inference.checkpoint_models import load_from_bundle

        return load_from_bundle(self)

    def load_transformer(self) -> "Loaded":
        """The same for a Transformer.

        Raises:
            UserError: the model is another one.
        """
        from vaswani_plugin.inference.checkpoint_models import Loaded

        loaded = self.load_model()
        if not isinstance(loaded, Loaded):
            raise UserError(
                f"{weights_path(self.folder)} holds a recurrent model: a {TRANSFORMER} is needed"
            )
        return loaded
