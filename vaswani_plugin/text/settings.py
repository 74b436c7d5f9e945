"""The fields of preprocessing.json in a bundle, for each kind of model.

A bundle is a folder with everything that translating text needs:

    model.pt              the checkpoint; or model.safetensors and config.json, or both
    dict.en.txt           the dictionaries, one a language
    dict.de.txt
    codes                 the subword model, under the name that preprocessing.json gives it
    preprocessing.json    `"version": 1`, `made_by` (our version), and the fields of `Settings`
    README.md             the model card, for people

A language model's bundle has one dictionary, dict.txt, and the fields of `TextSettings`. A parser's
bundle has dict.words.txt and dict.symbols.txt, and the fields of `TreeSettings`.
preprocessing.json is written last: a folder that has it is complete.
"""

import json
import re
from dataclasses import MISSING, dataclass, fields
from math import inf
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args

from vaswani_plugin import __version__
from vaswani_plugin.errors import UserError, check_ranges
from vaswani_plugin.files.lines import read_json
from vaswani_plugin.text.dictionary import TEXT_DICTIONARY, dictionary_names

VERSION = 1
MODEL = "model.pt"
SAFETENSORS = "model.safetensors"  # the weights of model.pt alone; used if model.pt is missing
CONFIG = "config.json"  # the content of model.pt without the weights; belongs to model.safetensors
CARD = "README.md"
CTRANSLATE2_MODEL = "model.bin"  # replaces model.pt after `vaswani export --to ctranslate2`
OURS = "vaswani"  # key of a Hugging Face config.json for values that have no field there
ONNX_ENCODER = "encoder_model.onnx"
"""Replaces model.pt, with the graphs of the decoder, after `vaswani export --to onnx`."""
SETTINGS = "preprocessing.json"
WORDS, SYMBOLS = "words", "symbols"  # names of a parser's two sides, in place of languages
Coding = Literal["words", "bpe", "characters"]  # of a language model; coding.py explains them
TreeCoding = Literal["bpe", "words"]
Subwords = Literal["subword-nmt", "sentencepiece", "none"]


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
        head = {"version": VERSION, "made_by": __version__}
        return json.dumps(head | vars(self), indent=2, ensure_ascii=False)


@dataclass(frozen=True)
class Settings(_Fields):
    """How raw text became the words of a model; files are named as in the bundle."""

    source_language: str  # of BCP 47; names the dictionary and chooses Moses' rules
    target_language: str
    lowercase: bool  # the first step
    normalize_punctuation: bool  # the second step, by Moses' rules
    tokenizer: Literal["moses", "none"]
    subwords: Subwords
    aggressive_dash_splits: bool = False  # Moses' option -a ("well-known": "well @-@ known")
    escape: bool = True  # & | < > ' " [ ] become XML entities, as in Moses
    codes: str | None = None  # the merges, or sentencepiece's model
    vocabulary: str | None = None  # subword-nmt writes these of the source's subwords alone
    vocabulary_threshold: int | None = None  # subwords with a lower count are ignored
    beam: int | None = None  # with which the model was scored
    longest_trained: int | None = None
    """Subwords of the longest source sentence in training, a few odd ones left out; a sentence of a
    text that is much longer is translated in pieces."""

    def dictionaries(self) -> dict[str, str]:
        return dictionary_names(self.source_language, self.target_language)


@dataclass(frozen=True)
class TextSettings(_Fields):
    """How one language's raw text became the units of a language model."""

    coding: Coding
    codes: str | None = None  # the merges of "bpe"
    article_tokens: int | None = None  # of a model that summarizes: units of an article, cut there
    summary_tokens: int | None = None  # the same of a summary
    beam: int | None = None  # with which the model was scored

    def dictionaries(self) -> dict[str, str]:
        return {"target": TEXT_DICTIONARY}


@dataclass(frozen=True)
class TreeSettings(_Fields):
    """How trees became the words and symbols of a parser."""

    coding: TreeCoding  # of the words; linearization.py explains both
    keep_tags: bool  # whether a word's symbol is its tag; otherwise all have the same
    label_closings: bool  # whether closing symbols have labels
    codes: str | None = None  # the merges of "bpe"
    beam: int | None = None  # with which the model was scored

    def dictionaries(self) -> dict[str, str]:
        return dictionary_names(WORDS, SYMBOLS)


AnySettings = Settings | TextSettings | TreeSettings


def weights_path(folder: Path) -> Path:
    """Returns the path of a bundle's weights: model.pt, else model.safetensors."""
    model, safetensors = folder / MODEL, folder / SAFETENSORS
    return safetensors if safetensors.is_file() and not model.is_file() else model


def read_settings(folder: Path) -> AnySettings:
    """Reads a bundle's preprocessing.json; a `UserError` names what the bundle lacks."""
    path = folder / SETTINGS
    if not folder.exists():
        raise UserError(f"{folder}: no such folder")
    if not path.is_file():
        remedy = "make one with data-prep/bundle.py"
        if (folder / "model" / SETTINGS).is_file():  # a recipe's work folder
            remedy = f"give {folder / 'model'}, which is one"
        raise UserError(f"{path} does not exist: {folder} is not a bundle; {remedy}")
    settings = read_settings_file(path)
    models = MODEL, SAFETENSORS, CTRANSLATE2_MODEL, ONNX_ENCODER
    for name in settings.files():
        if not any((folder / file).is_file() for file in (models if name == MODEL else (name,))):
            raise UserError(f"{folder / name} does not exist: the bundle is incomplete")
    return settings


def read_settings_file(path: Path) -> AnySettings:
    """Reads a preprocessing.json and no other file; raises the errors of `read_settings`."""
    content = read_json(path, "make the bundle again")
    made_by = content.pop("made_by", "0.1")  # earlier ones don't say
    if _release(made_by) > _release(__version__):
        versions = f"made by vaswani_plugin {made_by}, this is {__version__}"
        raise UserError(f"{path}: {versions}: install that one, or a later one")
    version = content.pop("version", None)
    if version != VERSION:
        versions = f"its version is {version!r}, this program reads {VERSION}"
        raise UserError(f"{path}: {versions}: make the bundle again with this bundle.py")
    kind: type[AnySettings] = TextSettings if "coding" in content else Settings
    try:
        settings = settings_from(content, TreeSettings if "keep_tags" in content else kind)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    for name in settings.files():
        # A bundle may come from anyone: it must not name files outside its folder.
        if name in (".", "..") or name != Path(name).name:
            raise UserError(f"{path}: names {name!r}, which is no file of the folder itself")
    return settings


def _release(version: object) -> tuple[float, ...]:
    """Major and minor number: a patch changes no file. What is no version is later than any."""
    match = re.fullmatch(r"(\d{1,9})\.(\d{1,9})(\..*)?", str(version))
    return (int(match[1]), int(match[2])) if match else (inf,)


def settings_from(content: dict[str, Any], kind: type[AnySettings] = Settings) -> AnySettings:
    """Makes settings of a kind from field names and values; a `UserError` names a wrong one."""
    names = [field.name for field in fields(kind)]
    if unknown := [key for key in content if key not in names]:
        raise UserError(f"{unknown[0]}: no such field; the fields are {', '.join(names)}")
    missing = [f.name for f in fields(kind) if f.default is MISSING and f.name not in content]
    if missing:
        raise UserError(f"{', '.join(missing)}: needed, as in {missing[0]}=VALUE")
    settings = kind(**content)
    for field in fields(kind):
        value, allowed = getattr(settings, field.name), get_args(field.type) or (field.type,)
        # A text is no truth value: "flase" would count as true.
        if value not in allowed and type(value) not in allowed:
            words = {NoneType: "null", str: "a text", int: "a number", bool: "true or false"}
            choices = " or ".join(words.get(choice, str(choice)) for choice in allowed)
            raise UserError(f"{field.name} is {value!r}: must be {choices}")
    check_ranges(**vars(settings))
    if isinstance(settings, Settings) and (settings.codes is None) != (settings.subwords == "none"):
        values = f"subwords is {settings.subwords}, codes {settings.codes}"
        raise UserError(f"{values}: give both or neither")
    return settings


KINDS = {
    Settings: ("a translation model", "vaswani translate (Translator in Python)"),
    TextSettings: ("a language model", "vaswani complete, lm, summarize (LanguageModel in Python)"),
    TreeSettings: ("a parser", "vaswani parse (Parser in Python)"),
}
"""For each type of settings: what its bundle holds, and what reads it."""


def wrong_kind(path: str, held: type[AnySettings], needed: type[AnySettings]) -> UserError:
    """The error where `path`, a file or folder, holds a model of another kind of settings."""
    name, readers = KINDS[held]
    return UserError(
        f"{path} holds {name}, and {KINDS[needed][0]} is needed here: {name} is for {readers}"
    )
