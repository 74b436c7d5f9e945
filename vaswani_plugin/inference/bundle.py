"""A bundle: the folder of a model and its text pipeline; text/settings.py says what it holds.

This file needs no torch, whose import takes a second: a bundle for CTranslate2 needs none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import (
    SYMBOLS,
    WORDS,
    AnySettings,
    Settings,
    TextSettings,
    TreeSettings,
    weights_path,
)

if TYPE_CHECKING:
    from vaswani_plugin.inference.models import Loaded

TASK = "vaswani_translation"
PARSING_TASK = "vaswani_parsing"
TRANSFORMER = "vaswani_transformer"
KINDS = {
    Settings: ("a translation model", "vaswani translate (Translator in Python)"),
    TextSettings: (
        "a language model",
        "vaswani complete, lm and summarize (LanguageModel in Python)",
    ),
    TreeSettings: ("a parser", "vaswani parse (Parser in Python)"),
}
"""For each type of settings: what its bundle holds, and what reads it."""


def wrong_kind(found: str, held: type[AnySettings], needed: type[AnySettings]) -> UserError:
    """The error where `found`, a file or folder, holds a model of another kind of settings."""
    name, readers = KINDS[held]
    return UserError(
        f"{found} holds {name}, and {KINDS[needed][0]} is needed here: {name} is for {readers}"
    )


class ForeignModel(UserError):
    """A checkpoint with a model that only fairseq builds.

    Args:
        reason: names the file and what it holds.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}, which only fairseq builds: fairseq-interactive translates with it, "
            "fairseq-eval-lm scores by it, and `vaswani import` takes fairseq's own Transformer"
        )


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
            kind: of settings: `Settings` for a translation model, `TreeSettings` for a parser,
                `TextSettings` for a language model.

        Raises:
            ValueError: the folder is not a bundle of this kind, or a file in it can't be used;
                names it.
            OSError: a file can't be read.
        """
        pipeline = Pipeline.load(folder)
        if not isinstance(pipeline.settings, kind):
            raise wrong_kind(str(folder), type(pipeline.settings), kind)
        return cls(folder, pipeline)

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language, as in the names of the dictionaries."""
        settings = self.pipeline.settings
        if isinstance(settings, TreeSettings):
            return WORDS, SYMBOLS
        assert isinstance(settings, Settings)
        return settings.source_language, settings.target_language

    def load_model(self) -> "Loaded":
        """Load the encoder-decoder and its dictionaries; see `models.load_model`."""
        from vaswani_plugin.inference.models import load_model

        kind, path = type(self.pipeline.settings), weights_path(self.folder)
        return load_model(path, self.folder, kind, self.languages)[0]

    def load_transformer(self) -> "Loaded":
        """The same for a Transformer.

        Raises:
            UserError: the model is another one.
        """
        from vaswani_plugin.model.configuration import Configuration

        loaded = self.load_model()
        if not isinstance(loaded.sizes, Configuration):
            raise UserError(
                f"{weights_path(self.folder)} holds a recurrent model: a {TRANSFORMER} is needed"
            )
        return loaded


class LoadedFromFiles:
    """A model that is pickled as the call that loaded it: another process reads the files again."""

    _load: Callable[[], Self] | None = None

    def loaded_by(self, load: Callable[..., Self], path: str | Path, **options: Any) -> Self:
        """Remember the call, of the absolute path."""
        self._load = partial(load, Path(path).absolute(), **options)
        return self

    def __reduce__(self) -> tuple[Callable[[], Self], tuple[()]]:
        if self._load is None:
            raise TypeError(
                f"this {type(self).__name__} can't be pickled, as it was made of parts: load its "
                "files by from_pretrained in the other process"
            )
        return self._load, ()
