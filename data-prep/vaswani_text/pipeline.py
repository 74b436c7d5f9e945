"""From a raw line to a model's subwords and back, by the settings that lie beside the model.

A bundle is a folder from which text can be translated without anything else:

    model.pt              the checkpoint
    dict.en.txt           the dictionaries, one a language
    dict.de.txt
    codes                 the subword model, under the name that preprocessing.json gives it
    preprocessing.json    `"version": 1` and the fields of `Settings`

preprocessing.json is written last: a folder that has it is complete.
"""

import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args

from vaswani_text.corpus_io import InputError

VERSION = 1
MODEL = "model.pt"
CTRANSLATE2_MODEL = "model.bin"
"""Stands for model.pt in a bundle that `vaswani export --to ctranslate2` made."""
SETTINGS = "preprocessing.json"
TOKENIZERS = ("moses", "none")
SUBWORDS = ("subword-nmt", "sentencepiece", "none")

LineFunction = Callable[[str], str]


@dataclass(frozen=True)
class Settings:
    """How raw text became the words of a model.

    Args:
        source_language: two-letter code; names the dictionary and chooses Moses' rules.
        target_language: the same for the other side.
        lowercase: before all else.
        normalize_punctuation: by Moses' rules, after that.
        tokenizer: "moses" or "none".
        aggressive_dash_splits: Moses' -a ("well-known": "well @-@ known").
        escape: Moses' XML entities for & | < > ' " [ ].
        subwords: "subword-nmt", "sentencepiece" or "none".
        codes: file with the merges, or sentencepiece's model; none where subwords is "none".
        vocabulary: file with the source language's subwords and their counts, which limits
            subword-nmt to those seen in training.
        vocabulary_threshold: counts below it do as if not seen.
        beam: the beam with which the model was scored.
    """

    source_language: str
    target_language: str
    lowercase: bool
    normalize_punctuation: bool
    tokenizer: str
    subwords: str
    aggressive_dash_splits: bool = False
    escape: bool = True
    codes: str | None = None
    vocabulary: str | None = None
    vocabulary_threshold: int | None = None
    beam: int | None = None

    def __post_init__(self) -> None:
        """Checks what the types don't say.

        Raises:
            InputError: an unknown tokenizer or kind of subwords; settings that don't go together.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            allowed = get_args(field.type) or (field.type,)
            # bool is an int to Python, and `beam=true` would pass.
            if type(value) not in allowed:
                names = " or ".join("null" if t is type(None) else t.__name__ for t in allowed)
                raise InputError(f"{field.name} is {value!r}: must be {names}")
        _one_of("tokenizer", self.tokenizer, TOKENIZERS)
        _one_of("subwords", self.subwords, SUBWORDS)
        if (self.codes is None) != (self.subwords == "none"):
            raise InputError(f"subwords is {self.subwords}, codes {self.codes}: don't fit together")
        if (self.vocabulary is None) != (self.vocabulary_threshold is None):
            raise InputError("vocabulary and vocabulary_threshold: give both or neither")
        if self.vocabulary is not None and self.subwords != "subword-nmt":
            raise InputError(f"vocabulary goes with subword-nmt, not with {self.subwords}")
        if self.beam is not None and self.beam < 1:
            raise InputError(f"beam is {self.beam}: must be at least 1")

    def files(self) -> list[str]:
        """Names of the bundle's files without preprocessing.json."""
        languages = dict.fromkeys((self.source_language, self.target_language))
        optional = (self.codes, self.vocabulary)
        return [MODEL, *map(dictionary_name, languages), *filter(None, optional)]

    def to_json(self) -> str:
        """The text of preprocessing.json."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=2, ensure_ascii=False)


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{name} is {value!r}: must be {', '.join(choices)}")


def dictionary_name(language: str) -> str:
    """The file name of a language's dictionary."""
    return f"dict.{language}.txt"


def read_settings(folder: Path) -> Settings:
    """Reads a bundle's preprocessing.json and looks that every file it needs is there.

    Raises:
        InputError: no bundle, an incomplete one, or one of another version; names the file.
    """
    path = folder / SETTINGS
    if not path.is_file():
        raise InputError(f"{path} does not exist: {folder} is no bundle; make one with bundle.py")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: no JSON ({error}); make the bundle again") from error
    version = content.pop("version", None) if isinstance(content, dict) else None
    if version != VERSION:
        raise InputError(
            f"{path}: its version is {version!r}, this program reads {VERSION}: make the bundle "
            "again with this bundle.py"
        )
    try:
        settings = settings_from(content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    for name in settings.files():
        found = (folder / name).is_file()
        if not found and name == MODEL:
            found = (folder / CTRANSLATE2_MODEL).is_file()
        if not found:
            raise InputError(f"{folder / name} does not exist: the bundle is incomplete")
    return settings


def settings_from(content: dict[str, Any]) -> Settings:
    """Makes settings of keys and values.

    Raises:
        InputError: a key is missing or unknown, or a value is of another type.
    """
    known = {field.name: field for field in fields(Settings)}
    if unknown := content.keys() - known.keys():
        raise InputError(f"unknown key {min(unknown)}; known are {', '.join(known)}")
    needed = {name for name, field in known.items() if field.default is MISSING}
    if missing := needed - content.keys():
        raise InputError(f"the key {min(missing)} is missing")
    return Settings(**content)


class Pipeline:
    """The functions between raw lines and a model's subwords.

    Args:
        settings: how the model's text was prepared.
        folder: where the settings' files lie.

    Raises:
        InputError: the codes can't be read.
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self._to_words = _to_words(settings)
        self._from_words = _from_words(settings)
        self._split, self._join = _subwords(settings, folder)

    @classmethod
    def load(cls, folder: Path) -> "Pipeline":
        """Reads a bundle's settings and codes; see `read_settings`."""
        return cls(read_settings(folder), folder)

    def encode(self, line: str) -> str:
        """A raw line as the model's subwords, joined by spaces; empty where nothing is left."""
        return self._split(self._to_words(line))

    def decode(self, line: str) -> str:
        """The model's subwords as running text, without a line break of any kind in it."""
        return " ".join(self._from_words(self._join(line)).splitlines())


def _unchanged(line: str) -> str:
    return line


def _to_words(settings: Settings) -> LineFunction:
    tokenize = settings.tokenizer == "moses"
    if not (tokenize or settings.lowercase or settings.normalize_punctuation):
        return _unchanged
    from vaswani_text.moses import make_processor

    return make_processor(
        settings.source_language,
        settings.lowercase,
        settings.normalize_punctuation,
        tokenize,
        settings.aggressive_dash_splits,
        settings.escape,
    )


def _from_words(settings: Settings) -> LineFunction:
    if settings.tokenizer == "none":
        return _unchanged
    from vaswani_text.moses import make_detokenizer

    return make_detokenizer(settings.target_language)


def _subwords(settings: Settings, folder: Path) -> tuple[LineFunction, LineFunction]:
    if settings.subwords == "none":
        return _unchanged, _unchanged
    codes = str(folder / settings.codes)
    if settings.subwords == "sentencepiece":
        from vaswani_text import wordpiece

        return wordpiece.make_encoder(codes), wordpiece.make_decoder(codes)
    from vaswani_text import bpe

    if settings.vocabulary is None:
        return bpe.make_encoder(codes), join_bpe
    vocabulary = str(folder / settings.vocabulary)
    return bpe.make_encoder(codes, vocabulary, settings.vocabulary_threshold), join_bpe


def join_bpe(line: str) -> str:
    """Undoes byte-pair encoding, as fairseq-generate's --remove-bpe does."""
    return (line + " ").replace("@@ ", "").rstrip()
