"""Hugging Face's tokenizer.json for the texts of our models that are not raw word pieces.

Hugging Face's BPE marks the last piece of a word (`low er</w>`), subword-nmt all the others
(`low@@ er`). It needs a number for every piece that a merge makes, though the dictionary has only
those that stand in the training text. The missing pieces get numbers behind the dictionary's, and
the exported model a row for each, which reads as <unk> and is never written.

Moses' rules become regular expressions. The library `tokenizers` replaces matches of an expression
(Oniguruma's syntax) by a fixed string. Sacremoses' rules copy parts of a match, so here they look
at the context instead: `(?<=A)x(?=B)`. `\\K` begins the replaced part. A rule of sacremoses uses up
its context, and so skips the next match if they share a letter: `rock'n'roll` is split once.
`_once` does the same for two matches in a row; in three in a row (a'b'c'd) the third stays whole.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
from sacremoses.util import CJKChars

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.bpe import read_merges
from vaswani_plugin.text.characters import MEANINGLESS
from vaswani_plugin.text.coding import LETTERS, NOTHING, decode_characters
from vaswani_plugin.text.dictionary import EOS, SPECIAL_SYMBOLS, Dictionary
from vaswani_plugin.text.settings import Settings, TextSettings

Step = dict[str, Any]
_MOVED, _CLOSING, _CLOSED, _LOW, _HIGH, _GLUE = "\ue001\ue002\ue003\ue004\ue005\ue006"
"""Marks of the steps, from the private use area; none remains in the result."""
_GAP = f"[ {_GLUE}]"
"""Between two words: a space, or what is no space in the running text."""
_RULES_OF_THEIR_OWN = ("cs", "fi")


def replace(pattern: str, content: str) -> Step:
    """The step that replaces each match of an expression by a fixed string."""
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def moses_steps(
    language: str, lowercase: bool, normalize: bool, aggressive: bool, escape: bool
) -> list[Step]:
    """The normalizers of tokenizer.json: raw text to words between spaces.

    Args:
        language: two-letter code of the source language.
        lowercase: as in `text.moses.make_processor`.
        normalize: likewise.
        aggressive: likewise.
        escape: likewise.
    """
    steps = []
    if lowercase:
        # The library lower-cases letter by letter; Python writes a sigma at a word's end as ς.
        cased, ignored = (
            r"[\p{Lowercase}\p{Uppercase}\p{Lt}]",
            r"[\p{Mn}\p{Me}\p{Lm}\p{Sk}\p{Cf}'’‘.:·]*",
        )
        steps += [replace(rf"{cased}{ignored}\KΣ(?!{ignored}{cased})", "ς"), {"type": "Lowercase"}]
    if normalize:
        steps += _punctuation(language)
    return steps + _tokenization(MosesTokenizer(lang=language), aggressive, escape)


def _once(before: str, character: str, behind: str) -> str:
    """`character` between two classes, unless the match before it has used up its context."""
    return f"(?<={before})(?<!{before}{character}{behind}){character}(?={behind})"


_MOVES = {
    r"\) ([.!:?;,])": [(r"\)\K (?=[.!:?;,])", "")],
    r"(\d) %": [(r"\d\K %", "%")],
    "([a-zA-Z])‘([a-zA-Z])": [],  # what follows does the same for all of them
    "([a-zA-Z])’([a-zA-Z])": [],
    r'"([,.]+)': [
        (r'"[,.]+\K', f'{_MOVED}"'),
        (rf'"(?=[,.]+{_MOVED})', ""),
        (_MOVED, ""),
    ],
    r'(\.+)"(\s*[^<])': [  # a line end follows the last quotation mark
        (r'(?<!\.)(?=\.+"(?!<))', f'"{_MOVED}'),
        (rf'{_MOVED}\.+\K"', ""),
        (_MOVED, ""),
    ],
    "(\\d)\u00a0(\\d)": [(_once(r"\d", "\u00a0", r"\d"), None)],
}
"""Rules of sacremoses that copy a part of their match, as steps; None: the rule's separator."""


def _punctuation(language: str) -> list[Step]:
    steps = []
    for pattern, replacement in MosesPunctNormalizer(lang=language).substitutions:
        if r"\g<" in replacement:
            separator = re.sub(r"\\g<\d>", "", replacement)
            moves = _MOVES[pattern]
            steps += [replace(p, separator if new is None else new) for p, new in moves]
        else:
            steps.append(replace(pattern, replacement))
    return [*steps, _strip()]


def _strip() -> Step:
    return {"type": "Strip", "strip_left": True, "strip_right": True}


def _tokenization(moses: MosesTokenizer, aggressive: bool, escape: bool) -> list[Step]:
    letters, alphabetic, numbers = map(_ranges, (moses.IsAlnum, moses.IsAlpha, moses.IsN))
    other = rf"[^{letters}\s.'`,\-]"
    steps = [
        (r"[\s\x{1C}-\x{1F}]+", " "),
        (r"[\x{00}-\x{1F}]|\A | \z", ""),
        (rf"(?<={other})|(?={other})", " "),
    ]
    if aggressive:
        steps.append((rf"[{letters}]\K-(?=[{letters}])", " @-@ "))
    steps += [
        (r"(?<!\.)(?=\.\.)|(?<=\.\.)(?!\.)", " "),
        (rf"(?<=[^{numbers}]),|,(?=[^{numbers}])|(?<=[{numbers}]),\z", " , "),
        *_apostrophes(moses.lang, alphabetic, numbers),
        (r"\s+", " "),
        *_full_stops(moses, alphabetic),
        (r"\s+", " "),
        (r"\.'(?= ?\z)", " . ' "),
    ]
    if escape:
        steps += [(p.pattern, new) for p, new in MosesTokenizer.MOSES_ESCAPE_XML_REGEXES]
    return [replace(*step) for step in steps]


def _apostrophes(language: str, alphabetic: str, numbers: str) -> list[tuple[str, str]]:
    if language not in ("en", "fr", "it"):
        return [("'", " ' ")]
    joined = " '" if language == "en" else "' "
    not_number = numbers if language == "en" else ""
    steps = [
        (_once(f"[^{alphabetic}]", "'", f"[^{alphabetic}]"), " ' "),
        (_once(f"[^{alphabetic}{not_number}]", "'", f"[{alphabetic}]"), " ' "),
        (_once(f"[{alphabetic}]", "'", f"[^{alphabetic}]"), " ' "),
        (_once(f"[{alphabetic}]", "'", f"[{alphabetic}]"), joined),
    ]
    return [*steps, (rf"(?<=[{numbers}])'(?=s)", " '")] if language == "en" else steps


def _full_stops(moses: MosesTokenizer, alphabetic: str) -> list[tuple[str, str]]:
    """Split a full stop off its word, unless the word is an abbreviation or the text goes on."""
    only_before_numbers = set(moses.NUMERIC_ONLY_PREFIXES)
    always = _any_of(set(moses.NONBREAKING_PREFIXES) - only_before_numbers)
    keeps = [rf"(?:{always})\.(?!\S)"]
    if only_before_numbers:
        keeps.append(rf"(?:{_any_of(only_before_numbers)})\.\s+[0-9]")
    keeps.append(rf"(?=\S*[{alphabetic}]\S*\.(?!\S))\S*\.\S*\.(?!\S)")
    keeps.append(rf"\S+\.\s+[{_ranges(moses.IsLower)}]")
    unless = "".join(f"(?!{keep})" for keep in keeps)
    return [(rf"(?<!\S){unless}(?!\.+(?!\S))\S+\K\.(?!\S)", " .")]


def _any_of(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words))


def _ranges(characters: str) -> str:
    """The inside of a character class."""
    codes = set(map(ord, characters))
    starts = sorted(code for code in codes if code - 1 not in codes)
    ends = sorted(code for code in codes if code + 1 not in codes)
    pairs = zip(starts, ends, strict=True)
    return "".join(rf"\x{{{a:X}}}" + rf"-\x{{{b:X}}}" * (b > a) for a, b in pairs)


def detokenization_steps(language: str) -> list[Step]:
    """The decoders of tokenizer.json: words between spaces to running text.

    Args:
        language: two-letter code of the target language.

    Raises:
        UserError: the language has rules that look further than an expression can.
    """
    if language in _RULES_OF_THEIR_OWN:
        raise UserError(
            f"Moses joins the words of the language {language} by rules that Hugging Face's "
            "tokenizers can't express: give --without-tokenizer for the model alone"
        )
    alphabetic, currency = map(_ranges, (MosesDetokenizer.IsAlpha, MosesDetokenizer.IsSc))
    steps = [(r"\A\s*|\s*\z", " "), (" @-@ ", "-")]
    steps += [(p.pattern, new) for p, new in MosesDetokenizer.MOSES_UNESCAPE_XML_REGEXES]
    if language != "ko":
        cjk = "".join(rf"\x{{{a:X}}}-\x{{{b:X}}}" for a, b in CJKChars().ranges)
        steps.append((f"(?<=[{cjk}]) (?=[{cjk}])", _GLUE))
    steps.append((rf"(?<={_GAP})[{currency}(\[{{¿¡]+\K{_GAP}", _GLUE))
    steps.append((rf"{_GAP}(?=[,.?!:;\\%}})\]]+{_GAP})", _GLUE))
    if language == "en":
        steps.append((rf"(?<=\S) (?='[{alphabetic}])", _GLUE))
    if language in ("fr", "it", "ga"):
        steps.append((rf"(?<=[{alphabetic}]') (?=[{alphabetic}])", _GLUE))
    steps += _quotes(language == "en")
    if language == "fr":  # "Vraiment ?" keeps its space
        steps.append((rf"{_GAP}(?=[?!:;\\%]{_GAP})", " "))
    steps += [(_GLUE, ""), (" {2,}", " "), (r"\A +| +\z", "")]
    return [replace(*step) for step in steps]


def _quotes(is_english: bool) -> list[tuple[str, str]]:
    """Join quotation marks to what they quote: the first one opens, the second one closes."""
    steps = [(f"(?<={_GAP})„(?={_GAP})", f'"{_LOW}'), (f"(?<={_GAP})“(?={_GAP})", f'"{_HIGH}')]
    for quote in ('"', "'", "`", "``", "''"):
        kind = f"[{_LOW}{_HIGH}]?" if quote == '"' else ""
        follows = f"(?<={_GAP})"
        token = f"{quote}{kind}{_GAP}"
        may_be_possessive = is_english and quote == "'"
        opens = f"{follows}(?<!s{_GAP})" if may_be_possessive else follows
        closes = rf"(?:(?!{follows}{token}).)*\K{quote}(?={kind}{_GAP})"
        steps.append((f"{opens}{token}{closes}", _CLOSING))
        if may_be_possessive:
            steps.append((rf"(?<=s{_GAP})'(?={_GAP})", _CLOSING))
        steps.append((rf"{follows}{quote}{kind}\K{_GAP}", _GLUE))
        steps.append((f"{_GAP}(?={_CLOSING})", _GLUE))
        steps.append((_CLOSING, quote + _CLOSED))
    return [*steps, (_CLOSED, ""), (f'"{_LOW}', "„"), (f'"{_HIGH}', "“")]


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
        UserError: the bundle's codes can't be read.
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
        "normalizer": {
            "type": "Sequence",
            "normalizers": [replace(MEANINGLESS.pattern, ""), *words],
        },
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
        UserError: the bundle's codes can't be read.
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
    return list(dict.fromkeys(read_merges(str(codes))))


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
