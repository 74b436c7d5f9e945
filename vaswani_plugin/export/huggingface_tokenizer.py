"""Hugging Face's tokenizer.json for the texts of our models that are not raw word pieces.

Hugging Face's BPE marks the last piece of a word (`low er</w>`), subword-nmt all the others
(`low@@ er`). It needs a number for every piece that a merge makes, though the dictionary has only
those that stand in the training text. The missing pieces get numbers behind the dictionary's, and
the exported model a row for each, which reads as <unk> and is never written.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.huggingface_moses import (
    detokenization_steps,
    moses_steps,
    replace,
)
from vaswani_plugin.text.binary import SPECIAL_SYMBOLS
from vaswani_plugin.text.bpe import load_codes
from vaswani_plugin.text.coding import LETTERS, NOTHING, decode_characters
from vaswani_plugin.text.dictionary import EOS, Dictionary
from vaswani_plugin.text.settings import Settings, TextSettings

FILE = "tokenizer.json"
WORD_END = "</w>"
_JOINT = "@@"


def bpe_tokenizer(model: Path, settings: Settings, dictionary: Dictionary) -> dict[str, Any]:
    """The content of tokenizer.json for a translation model of Moses' words and BPE.

    Args:
        model: the bundle.
        settings: of the bundle.
        dictionary: of both languages.

    Raises:
        UserError: Hugging Face's tokenizers can't do the same; says why.
        InputError: the bundle's codes can't be read.
    """
    if settings.subwords != "subword-nmt" or settings.tokenizer != "moses":
        raise _refused(f"is prepared by tokenizer {settings.tokenizer} and {settings.subwords}")
    if settings.vocabulary is not None:
        raise _refused(f"is split into the subwords of {settings.vocabulary} only")
    words = moses_steps(
        settings.source_language,
        settings.lowercase,
        settings.normalize_punctuation,
        settings.aggressive_dash_splits,
        settings.escape,
    )
    merges = _merges(model / str(settings.codes))
    return {
        **_frame(dictionary),
        "normalizer": {"type": "Sequence", "normalizers": words},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": _template(dictionary, ends=True),
        "decoder": {
            "type": "Sequence",
            "decoders": [*_JOIN, *detokenization_steps(settings.target_language)],
        },
        "model": _bpe(_vocabulary(map(_piece, _subwords(dictionary)), merges), merges),
    }


def text_tokenizer(model: Path, settings: TextSettings, dictionary: Dictionary) -> dict[str, Any]:
    """The content of tokenizer.json for a language model: `text.coding`, with </s> before a text.

    The line break is a second name of </s>, as the end of a line in training.

    Args:
        model: the bundle.
        settings: of the bundle.
        dictionary: of its units.

    Raises:
        InputError: the bundle's codes can't be read.
    """
    begins = {"post_processor": _template(dictionary, ends=False), "normalizer": None}
    if settings.coding == "words":
        return {
            **_frame(dictionary),
            **begins,
            "normalizer": replace(rf"(?<!\S)(?:{_SPECIAL})(?!\S)", "<unk>"),
            "pre_tokenizer": _in_turn(_LINES, _split(r"(?:(?!\n)[\s\x{1C}-\x{1F}])+", "Removed")),
            "decoder": None,
            "model": _whole_units(dictionary.symbols),
        }
    if settings.coding == "characters":
        special = dictionary.symbols[: dictionary.nspecial]
        units = [*special, *map(decode_characters, _subwords(dictionary))]
        return {
            **_frame(dictionary),
            **begins,
            "pre_tokenizer": _split(r"[\s\S]", "Isolated"),
            "decoder": {"type": "Fuse"},
            "model": _whole_units(units),
        }
    merges = [(_written(a), _written(b)) for a, b in _merges(model / str(settings.codes))]
    pieces = (
        _EMPTY if unit == NOTHING else _written(_piece(unit)) for unit in _subwords(dictionary)
    )
    tokenizer = _frame(dictionary)
    vocabulary = _vocabulary(pieces, merges)
    tokenizer["added_tokens"].append(_added(vocabulary[_EMPTY], _EMPTY, normalized=True))
    vocabulary["Ċ" + WORD_END] = EOS  # the line break among the letters for bytes
    return {
        **tokenizer,
        **begins,
        "normalizer": replace(r"(?:\A|(?<=\n))(?= )|(?<= )(?= |\n|\z)", _EMPTY),
        "pre_tokenizer": _in_turn(_LINES, _split(" ", "Removed"), _BYTES),
        "decoder": {
            "type": "Sequence",
            "decoders": [replace(_EMPTY, WORD_END), _JOIN[0], replace(" ", "Ġ"), _BYTES],
        },
        "model": _bpe(vocabulary, merges),
    }


def _written(piece: str) -> str:
    """A piece of bytes in Hugging Face's letters for bytes."""
    stem = piece.removesuffix(WORD_END)
    return stem.translate(_BYTE_LETTERS) + piece[len(stem) :]


def _byte_letters() -> dict[int, str]:
    """GPT-2's letters for bytes, by ours: printable ones are themselves, the others follow."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    theirs = {byte: chr(byte) for byte in printable}
    theirs |= {byte: chr(256 + number) for number, byte in enumerate(others)}
    return {ord(letter): theirs[byte] for byte, letter in LETTERS.items()}


_BYTE_LETTERS = _byte_letters()
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
_EMPTY = "\ue000"
"""An empty word, between two spaces; from the private use area."""


def tokenizer_config(positions: int) -> dict[str, Any]:
    """What every tokenizer_config.json holds.

    Args:
        positions: longest text in tokens.
    """
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": positions,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # a "</s>" in the text is text
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
    }


def _refused(reason: str) -> UserError:
    return UserError(
        f"the bundle's text {reason}, and Hugging Face has no tokenizer that does the same: give "
        "--without-tokenizer for the model alone, or train on word pieces (--subwords wordpiece "
        "of the recipes)"
    )


def require_one_dictionary(share_embeddings: str) -> None:
    """Refuse two vocabularies: a tokenizer.json has one.

    Raises:
        UserError: the model's languages have a dictionary each.
    """
    if share_embeddings != "all":
        raise _refused("has a dictionary for each language")


def _merges(codes: Path) -> list[tuple[str, str]]:
    table = load_codes(str(codes))
    if table.version != (0, 2):
        raise _refused(f"is split by codes of subword-nmt's old format, {codes.name}")
    return sorted(table.bpe_codes, key=table.bpe_codes.__getitem__)


def _subwords(dictionary: Dictionary) -> list[str]:
    return dictionary.symbols[dictionary.nspecial :]


def _piece(symbol: str) -> str:
    """Hugging Face's name of a piece of subword-nmt's."""
    inside = symbol.endswith(_JOINT)
    return symbol.removesuffix(_JOINT) if inside else symbol + WORD_END


def _vocabulary(pieces: Iterable[str], merges: list[tuple[str, str]]) -> dict[str, int]:
    """Numbers of the pieces, and behind them of the merges' other pieces.

    Raises:
        UserError: two pieces have the same name.
    """
    names = [*SPECIAL_SYMBOLS, *pieces]
    numbers = {name: number for number, name in enumerate(names)}
    if len(numbers) != len(names):
        raise _refused("has a subword twice in its dictionary")
    for left, right in merges:
        for piece in (left, right, left + right):
            numbers.setdefault(piece, len(numbers))
    return numbers


def _bpe(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "type": "BPE",
        "unk_token": "<unk>",
        "end_of_word_suffix": WORD_END,
        "fuse_unk": False,
        "vocab": vocabulary,
        "merges": [list(pair) for pair in merges],
    }


def _whole_units(units: list[str]) -> dict[str, Any]:
    vocabulary = {unit: number for number, unit in enumerate(units)} | {"\n": EOS}
    return {"type": "WordLevel", "unk_token": "<unk>", "vocab": vocabulary}


def _frame(dictionary: Dictionary) -> dict[str, Any]:
    """The parts of tokenizer.json that are always the same."""
    special = enumerate(dictionary.symbols[: dictionary.nspecial])
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(number, symbol, special=True) for number, symbol in special],
    }


def _added(
    number: int, content: str, special: bool = False, normalized: bool = False
) -> dict[str, Any]:
    """A token that is found in the text as it is."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    flags |= {"normalized": normalized, "special": special}
    return {"id": number, "content": content, **flags}


def _template(dictionary: Dictionary, ends: bool) -> dict[str, Any]:
    """The step that writes </s> behind a text, or before it."""
    end = dictionary[EOS]
    own = {"SpecialToken": {"id": end, "type_id": 0}}
    texts = {name: {"Sequence": {"id": name, "type_id": 0}} for name in "AB"}
    parts = {name: [text, own] if ends else [own, text] for name, text in texts.items()}
    return {
        "type": "TemplateProcessing",
        "single": parts["A"],
        "pair": parts["A"] + parts["B"],
        "special_tokens": {end: {"id": end, "ids": [EOS], "tokens": [end]}},
    }


def _split(pattern: str, behavior: str) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": pattern}}
    return {**split, "behavior": behavior, "invert": False}


def _in_turn(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": [*steps]}


_SPECIAL = "<s>|<pad>|</s>|<sep>"
"""In a text of words they are unknown words, as in `coding.encode_words`."""
_LINES = _split(r"\n", "Isolated")
_JOIN = ({"type": "BPEDecoder", "suffix": WORD_END}, {"type": "Fuse"})
"""Pieces to words between spaces, as one text."""
