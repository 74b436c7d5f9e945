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

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
from sacremoses.util import CJKChars
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.bpe import read_merges
from vaswani_plugin.text.characters import MEANINGLESS
from vaswani_plugin.text.coding import LETTERS, NOTHING, decode_characters
from vaswani_plugin.text.dictionary import EOS, SPECIAL_SYMBOLS, UNK, Dictionary
from vaswani_plugin.text.settings import Settings, TextSettings

_MOVED, _CLOSING, _CLOSED, _LOW, _HIGH, _GLUE = "\ue001\ue002\ue003\ue004\ue005\ue006"
"""Marks of the steps, from the private use area; none remains in the result."""
_GAP = f"[ {_GLUE}]"
"""Between two words: a space, or what is no space in the running text."""
_RULES_OF_THEIR_OWN = ("cs", "fi")


def moses_steps(
    language: str, lowercase: bool, normalize: bool, aggressive: bool, escape: bool
) -> list[normalizers.Normalizer]:
    """The normalizers of tokenizer.json: raw text to words, as by `text.moses.make_processor`."""
    steps: list[normalizers.Normalizer] = []
    if lowercase:
        # The library lower-cases letter by letter; Python writes a sigma at a word's end as ς.
        cased, ignored = (
            r"[\p{Lowercase}\p{Uppercase}\p{Lt}]",
            r"[\p{Mn}\p{Me}\p{Lm}\p{Sk}\p{Cf}'’‘.:·]*",
        )
        sigma = Regex(rf"{cased}{ignored}\KΣ(?!{ignored}{cased})")
        steps += [normalizers.Replace(sigma, "ς"), normalizers.Lowercase()]
    if normalize:
        steps += [normalizers.Replace(Regex(p), new) for p, new in _punctuation(language)]
        steps.append(normalizers.Strip())
    rules = _tokenization(MosesTokenizer(lang=language), aggressive, escape)
    return steps + [normalizers.Replace(Regex(pattern), new) for pattern, new in rules]


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


def _punctuation(language: str) -> list[tuple[str, str]]:
    steps = []
    for pattern, replacement in MosesPunctNormalizer(lang=language).substitutions:
        if r"\g<" in replacement:
            separator = re.sub(r"\\g<\d>", "", replacement)
            moves = _MOVES[pattern]
            steps += [(p, separator if new is None else new) for p, new in moves]
        else:
            steps.append((pattern, replacement))
    return steps


def _tokenization(moses: MosesTokenizer, aggressive: bool, escape: bool) -> list[tuple[str, str]]:
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
    return steps


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


def detokenization_steps(language: str) -> list[decoders.Decoder]:
    """The decoders of tokenizer.json: words between spaces to running text.

    Refuses a language whose rules look further than an expression can.
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
    return [decoders.Replace(Regex(pattern), new) for pattern, new in steps]


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

    Refuses a bundle whose text Hugging Face's tokenizers can't prepare.
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
    vocabulary = _vocabulary(map(_piece, _subwords(dictionary)), merges)
    tokenizer = _made(_bpe(vocabulary, merges), dictionary, f"$0 {dictionary[EOS]}")
    invisible = normalizers.Replace(Regex(MEANINGLESS.pattern), "")
    tokenizer.normalizer = normalizers.Sequence([invisible, *words])
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    text = detokenization_steps(settings.target_language)
    tokenizer.decoder = decoders.Sequence([decoders.BPEDecoder(WORD_END), decoders.Fuse(), *text])
    return _content(tokenizer)


def text_tokenizer(model: Path, settings: TextSettings, dictionary: Dictionary) -> dict[str, Any]:
    """The content of tokenizer.json for a language model: `text.coding`, with </s> before a text.

    The line break is a second name of </s>, as the end of a line in training.
    """
    begins = f"{dictionary[EOS]} $0"
    if settings.coding == "words":
        tokenizer = _made(_whole_units(dictionary.symbols), dictionary, begins)
        tokenizer.normalizer = normalizers.Replace(
            Regex(rf"(?<!\S)(?:{_SPECIAL})(?!\S)"), dictionary[UNK]
        )
        blanks = Regex(r"(?:(?!\n)[\s\x{1C}-\x{1F}])+")
        split = pre_tokenizers.Split(blanks, "removed")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([_lines(), split])
        return _content(tokenizer, "\n")
    if settings.coding == "characters":
        special = dictionary.symbols[: dictionary.nspecial]
        units = [*special, *map(decode_characters, _subwords(dictionary))]
        tokenizer = _made(_whole_units(units), dictionary, begins)
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        tokenizer.decoder = decoders.Fuse()
        return _content(tokenizer, "\n")
    merges = [(_written(a), _written(b)) for a, b in _merges(model / str(settings.codes))]
    pieces = (
        _EMPTY if unit == NOTHING else _written(_piece(unit)) for unit in _subwords(dictionary)
    )
    vocabulary = _vocabulary(pieces, merges)
    tokenizer = _made(_bpe(vocabulary, merges), dictionary, begins)
    tokenizer.add_tokens([AddedToken(_EMPTY, normalized=True)])
    empty = Regex(r"(?:\A|(?<=\n))(?= )|(?<= )(?= |\n|\z)")
    tokenizer.normalizer = normalizers.Replace(empty, _EMPTY)
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = pre_tokenizers.Split(" ", "removed")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([_lines(), split, letters])
    words = [decoders.Replace(_EMPTY, WORD_END), decoders.BPEDecoder(WORD_END)]
    tokenizer.decoder = decoders.Sequence(
        [*words, decoders.Replace(" ", "Ġ"), decoders.ByteLevel()]
    )
    return _content(tokenizer, "Ċ" + WORD_END)  # a line break among the letters for bytes


_SPECIAL = "<s>|<pad>|</s>|<sep>"
"""In a text of words they are unknown words, as in `coding.make_coding`."""
_EMPTY = "\ue000"
"""An empty word, between two spaces; from the private use area."""


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


def tokenizer_config(positions: int) -> dict[str, Any]:
    """What every tokenizer_config.json holds; `positions`: longest text in tokens."""
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
        "--without-tokenizer for the model alone, or train on word pieces, as recipes/own_text.sh "
        "does"
    )


def require_one_dictionary(share_embeddings: str) -> None:
    """Refuse two vocabularies: a tokenizer.json has one."""
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
    """Numbers of the pieces, and behind them of the merges' other pieces."""
    names = [*SPECIAL_SYMBOLS, *pieces]
    numbers = {name: number for number, name in enumerate(names)}
    if len(numbers) != len(names):
        raise _refused("has a subword twice in its dictionary")
    for left, right in merges:
        for piece in (left, right, left + right):
            numbers.setdefault(piece, len(numbers))
    return numbers


def _bpe(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> models.Model:
    return models.BPE(vocabulary, merges, unk_token="<unk>", end_of_word_suffix=WORD_END)


def _whole_units(units: list[str]) -> models.Model:
    numbers = {unit: number for number, unit in enumerate(units)}
    return models.WordLevel(numbers, unk_token="<unk>")


def _made(model: models.Model, dictionary: Dictionary, template: str) -> Tokenizer:
    """A tokenizer that writes </s> where the template says."""
    tokenizer = Tokenizer(model)
    tokenizer.add_special_tokens(dictionary.symbols[: dictionary.nspecial])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=template,
        pair=" ".join(template.replace("$0", f"${name}:0") for name in "AB"),
        special_tokens=[(dictionary[EOS], EOS)],
    )
    return tokenizer


def _content(tokenizer: Tokenizer, line_break: str | None = None) -> dict[str, Any]:
    """The content of tokenizer.json, with a second name of </s>, which the library writes not."""
    content: dict[str, Any] = json.loads(tokenizer.to_str())
    if line_break is not None:
        content["model"]["vocab"][line_break] = EOS
    return content


def _lines() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split("\n", "isolated")
