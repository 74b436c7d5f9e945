"""The fields of preprocessing.json in a bundle, for each kind of model.

A bundle is a folder with everything that translating text needs:

    model.pt              the checkpoint; or model.safetensors and config.json, or both
    dict.en.txt           the dictionaries, one a language
    dict.de.txt
    codes                 the subword model, under the name that preprocessing.json gives it
    preprocessing.json    `"version": 1` and the fields of `Settings`
    README.md             the model card, for people

A language model's bundle has one dictionary, dict.txt, and the fields of `TextSettings`. A parser's
bundle has dict.words.txt and dict.symbols.txt, and the fields of `TreeSettings`.
preprocessing.json is written last: a folder that has it is complete.
"""

import json
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.dictionary import TEXT_DICTIONARY, dictionary_name
from vaswani_plugin.text.lines import read_json

VERSION = 1
MODEL = "model.pt"
SAFETENSORS = "model.safetensors"
"""The weights of model.pt alone; used if model.pt is missing."""
CONFIG = "config.json"
"""The content of model.pt without the weights; belongs to model.safetensors."""
CARD = "README.md"
CTRANSLATE2_MODEL = "model.bin"
"""Replaces model.pt in a bundle that `vaswani export --to ctranslate2` made."""
OURS = "vaswani"
"""Key of a Hugging Face config.json for values that have no field there."""
ONNX_ENCODER = "encoder_model.onnx"
"""Replaces model.pt, with the graphs of the decoder, after `vaswani export --to onnx`."""
SETTINGS = "preprocessing.json"
TOKENIZERS = ("moses", "none")
WORDS, SYMBOLS = "words", "symbols"
"""Names of a parser's two sides, in place of a translation's languages."""
CODINGS = ("words", "bpe", "characters")
"""Of a language model's text; coding.py explains them."""
TREE_CODINGS = ("bpe", "words")
SUBWORDS = ("subword-nmt", "sentencepiece", "none")


class _Fields:
    """The methods that the settings of all kinds of model share."""

    codes: str | None

    def dictionaries(self) -> dict[str, str]:
        """Names of the dictionaries' files, by side: "source" and "target"."""
        raise NotImplementedError

    def files(self) -> list[str]:
        """Names of the bundle's files without preprocessing.json."""
        optional = self.codes, getattr(self, "vocabulary", None)
        return [MODEL, *dict.fromkeys(self.dictionaries().values()), *filter(None, optional)]

    def to_json(self) -> str:
        """Returns the text of preprocessing.json."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=2, ensure_ascii=False)

    def _check_types(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            allowed = get_args(field.type) or (field.type,)
            # bool is a subclass of int: `isinstance` would accept `beam=true`.
            if type(value) not in allowed:
                names = " or ".join("null" if t is type(None) else t.__name__ for t in allowed)
                raise UserError(f"{field.name} is {value!r}: must be {names}")

    def _at_least_1(self, *names: str) -> None:
        for name in names:
            if (value := getattr(self, name)) is not None and value < 1:
                raise UserError(f"{name} is {value}: must be at least 1")


@dataclass(frozen=True)
class Settings(_Fields):
    """How raw text became the words of a model.

    Args:
        source_language: two-letter code; names the dictionary and chooses Moses' rules.
        target_language: the same for the other side.
        lowercase: whether text is converted to lower case, as the first step.
        normalize_punctuation: whether Moses' rules normalize punctuation, as the second step.
        tokenizer: "moses" or "none".
        aggressive_dash_splits: Moses' option -a ("well-known": "well @-@ known").
        escape: whether & | < > ' " [ ] become XML entities, as in Moses.
        subwords: "subword-nmt", "sentencepiece" or "none".
        codes: file with the merges, or sentencepiece's model; None if subwords is "none".
        vocabulary: file with the source language's subwords and their counts; subword-nmt then
            writes only these subwords.
        vocabulary_threshold: subwords with a lower count are ignored.
        beam: the beam with which the model was scored.
        longest_trained: 99 % of the training's source sentences have at most as many subwords;
            a longer sentence of a text is translated in pieces.
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
    longest_trained: int | None = None

    def __post_init__(self) -> None:
        """Checks the values; raises UserError."""
        self._check_types()
        _one_of("tokenizer", self.tokenizer, TOKENIZERS)
        _one_of("subwords", self.subwords, SUBWORDS)
        if (self.codes is None) != (self.subwords == "none"):
            raise UserError(f"subwords is {self.subwords}, codes {self.codes}: don't fit together")
        if (self.vocabulary is None) != (self.vocabulary_threshold is None):
            raise UserError("vocabulary and vocabulary_threshold: give both or neither")
        if self.vocabulary is not None and self.subwords != "subword-nmt":
            raise UserError(f"vocabulary goes with subword-nmt, not with {self.subwords}")
        self._at_least_1("beam", "longest_trained")

    def dictionaries(self) -> dict[str, str]:
        """Names of the dictionaries' files, by side."""
        languages = {"source": self.source_language, "target": self.target_language}
        return {side: dictionary_name(language) for side, language in languages.items()}


@dataclass(frozen=True)
class TextSettings(_Fields):
    """How one language's raw text became the units of a language model.

    Args:
        coding: "words", "bpe" or "characters"; coding.py explains them.
        codes: file with the merges of "bpe".
        article_tokens: for a model that summarizes: number of units of an article that are read,
            from its beginning; the others are left out.
        summary_tokens: number of units of a summary, at most.
        beam: the beam with which the model was scored.
    """

    coding: str
    codes: str | None = None
    article_tokens: int | None = None
    summary_tokens: int | None = None
    beam: int | None = None

    def __post_init__(self) -> None:
        """Checks the values; raises UserError."""
        self._check_types()
        _check_coding(self.coding, self.codes, CODINGS)
        if (self.article_tokens is None) != (self.summary_tokens is None):
            raise UserError("article_tokens and summary_tokens: give both or neither")
        self._at_least_1("article_tokens", "summary_tokens", "beam")

    def dictionaries(self) -> dict[str, str]:
        """Name of the dictionary's file."""
        return {"target": TEXT_DICTIONARY}


@dataclass(frozen=True)
class TreeSettings(_Fields):
    """How trees became the words and symbols of a parser.

    Args:
        coding: of the words, "bpe" or "words"; linearization.py explains them.
        keep_tags: whether a word's symbol is its tag; otherwise all words have the same symbol.
        label_closings: whether closing symbols have labels.
        codes: file with the merges of "bpe".
        beam: the beam with which the model was scored.
    """

    coding: str
    keep_tags: bool
    label_closings: bool
    codes: str | None = None
    beam: int | None = None

    def __post_init__(self) -> None:
        """Checks the values; raises UserError."""
        self._check_types()
        _check_coding(self.coding, self.codes, TREE_CODINGS)
        self._at_least_1("beam")

    def dictionaries(self) -> dict[str, str]:
        """Names of the dictionaries' files, by side."""
        return {"source": dictionary_name(WORDS), "target": dictionary_name(SYMBOLS)}


AnySettings = Settings | TextSettings | TreeSettings


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UserError(f"{name} is {value!r}: must be {', '.join(choices)}")


def _check_coding(coding: str, codes: str | None, choices: tuple[str, ...]) -> None:
    _one_of("coding", coding, choices)
    if (codes is not None) != (coding == "bpe"):
        raise UserError(f"coding is {coding}, codes {codes}: don't fit together")


def refuse_links(folder: Path) -> None:
    """Refuses a folder with symbolic links: a bundle may come from anyone.

    A link would let it read, and `vaswani card` overwrite, files outside of the folder.

    Raises:
        UserError: names the first link.
    """
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_symlink():
            raise UserError(
                f"{path} is a link, and a bundle holds its own files: copy it with `cp -rL`"
            )


def weights_path(folder: Path) -> Path:
    """Returns the path of a bundle's weights: model.pt, else model.safetensors.

    Raises:
        UserError: the folder holds a link.
    """
    refuse_links(folder)
    safetensors = folder / SAFETENSORS
    return (
        safetensors if safetensors.is_file() and not (folder / MODEL).is_file() else folder / MODEL
    )


def read_settings(folder: Path) -> AnySettings:
    """Reads a bundle's preprocessing.json and checks that every file it needs exists.

    Raises:
        UserError: the folder is not a bundle, is incomplete, of another version, or holds a link;
            names the file.
    """
    path = folder / SETTINGS
    if not path.is_file():
        remedy = "make one with data-prep/bundle.py"
        if (folder / "model" / SETTINGS).is_file():  # a recipe's work folder
            remedy = f"give {folder / 'model'}, which is one"
        raise UserError(f"{path} does not exist: {folder} is not a bundle; {remedy}")
    refuse_links(folder)
    settings = read_settings_file(path)
    for name in settings.files():
        found = (folder / name).is_file()
        if not found and name == MODEL:
            others = (SAFETENSORS, CTRANSLATE2_MODEL, ONNX_ENCODER)
            found = any((folder / other).is_file() for other in others)
        if not found:
            raise UserError(f"{folder / name} does not exist: the bundle is incomplete")
    return settings


def read_settings_file(path: Path) -> AnySettings:
    """Reads a preprocessing.json and no other file; raises the errors of `read_settings`."""
    content = read_json(path, "make the bundle again")
    version = content.pop("version", None) if isinstance(content, dict) else None
    if version != VERSION:
        raise UserError(
            f"{path}: its version is {version!r}, this program reads {VERSION}: make the bundle "
            "again with this bundle.py"
        )
    kind: type[AnySettings] = TextSettings if "coding" in content else Settings
    if "keep_tags" in content:
        kind = TreeSettings
    try:
        settings = settings_from(content, kind)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    optional = (getattr(settings, key, None) for key in ("codes", "vocabulary"))
    for name in (*settings.files(), *(name for name in optional if name is not None)):
        # A bundle may come from anyone: it must not name files outside its folder.
        if name in ("", ".", "..") or name != Path(name).name or "\0" in name:
            raise UserError(f"{path}: names {name!r}, which is no file of the folder itself")
    return settings


def settings_from(content: dict[str, Any], kind: type[AnySettings] = Settings) -> AnySettings:
    """Makes settings of a kind from field names and values.

    Raises:
        UserError: a key is missing or unknown, or a value has the wrong type.
    """
    known = {field.name: field for field in fields(kind)}
    if unknown := content.keys() - known.keys():
        raise UserError(f"unknown key {min(unknown)}; known are {', '.join(known)}")
    needed = {name for name, field in known.items() if field.default is MISSING}
    if missing := needed - content.keys():
        raise UserError(f"the key {min(missing)} is missing")
    return kind(**content)
