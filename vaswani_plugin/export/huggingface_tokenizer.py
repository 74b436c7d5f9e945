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

import tokenizers
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
from sacremoses.util import CJKChars
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.bpe import WORD_END, read_merges
from vaswani_plugin.text.coding import LETTERS, NOTHING, decode_characters
from vaswani_plugin.text.dictionary import EOS, SPECIAL_SYMBOLS, UNK, Dictionary
from vaswani_plugin.text.raw_text import MEANINGLESS, base_language
from vaswani_plugin.text.settings import Settings, TextSettings

_MOVED, _CLOSING, _CLOSED, _LOW, _HIGH, _GLUE = "\ue001\ue002\ue003\ue004\ue005\ue006"
"""Marks of the steps, from the private use area; none remains in the result."""
_GAP = f"[ {_GLUE}]"  # between two words: a space, or what is no space in the running text


def moses_steps(
    language: str, lowercase: bool, normalize: bool, escape: bool
) -> list[normalizers.Normalizer]:
    """The normalizers of tokenizer.json: raw text to words, as by `text.moses.make_processor`."""
    steps: list[normalizers.Normalizer] = [normalizers.NFC()]
    if lowercase:
        steps += [normalizers.Replace("\u0130", "i"), normalizers.Lowercase(), steps[0]]
    if normalize:
        steps += [normalizers.Replace(Regex(p), new) for p, new in _punctuation(language)]
        steps.append(normalizers.Strip())
    rules = _tokenization(MosesTokenizer(lang=language), escape)
    return steps + [normalizers.Replace(Regex(pattern), new) for pattern, new in rules]


def _once(before: str, character: str, behind: str) -> str:
    """`character` between two classes, unless the match before it has used up its context."""
    return f"(?<={before})(?<!{before}{character}{behind}){character}(?={behind})"


_MOVES: dict[str, list[tuple[str, str | None]]] = {
    r"\) ([.!:?;,])": [(r"\)\K (?=[.!:?;,])", "")],
    r"(\d) %": [(r"\d\K %", "%")],
    "([a-zA-Z])‘([a-zA-Z])": [],  # what follows does the same for all of them
    "([a-zA-Z])’([a-zA-Z])": [],
    r'"([,.]+)': [(r'"[,.]+\K', f'{_MOVED}"'), (rf'"(?=[,.]+{_MOVED})', ""), (_MOVED, "")],
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


def _tokenization(moses: MosesTokenizer, escape: bool) -> list[tuple[str, str]]:
    letters, alphabetic, numbers = map(_ranges, (moses.IsAlnum, moses.IsAlpha, moses.IsN))
    other = rf"[^{letters}\s.'`,\-]"
    steps = [
        (r"[\s\x{1C}-\x{1F}]+", " "),
        (r"[\x{00}-\x{1F}]|\A | \z", ""),
        (rf"(?<={other})|(?={other})", " "),
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
    keeps = [rf"(?:{_any_of(set(moses.NONBREAKING_PREFIXES) - only_before_numbers)})\.(?!\S)"]
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
    pairs = zip(starts, sorted(code for code in codes if code + 1 not in codes), strict=True)
    return "".join(rf"\x{{{a:X}}}" + rf"-\x{{{b:X}}}" * (b > a) for a, b in pairs)


def detokenization_steps(language: str) -> list[decoders.Decoder]:
    """The decoders of tokenizer.json: words between spaces to running text."""
    alphabetic, currency = map(_ranges, (MosesDetokenizer.IsAlpha, MosesDetokenizer.IsSc))
    steps = [(r"\A\s*|\s*\z", " "), (" @-@ ", "-")]
    steps += [(p.pattern, new) for p, new in MosesDetokenizer.MOSES_UNESCAPE_XML_REGEXES]
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
        mark = f"[{_LOW}{_HIGH}]?" if quote == '"' else ""
        follows = f"(?<={_GAP})"
        token = f"{quote}{mark}{_GAP}"
        may_be_possessive = is_english and quote == "'"
        opens = f"{follows}(?<!s{_GAP})" if may_be_possessive else follows
        closes = rf"(?:(?!{follows}{token}).)*\K{quote}(?={mark}{_GAP})"
        steps.append((f"{opens}{token}{closes}", _CLOSING))
        if may_be_possessive:
            steps.append((rf"(?<=s{_GAP})'(?={_GAP})", _CLOSING))
        steps.append((rf"{follows}{quote}{mark}\K{_GAP}", _GLUE))
        steps.append((f"{_GAP}(?={_CLOSING})", _GLUE))
        steps.append((_CLOSING, quote + _CLOSED))
    return [*steps, (_CLOSED, ""), (f'"{_LOW}', "„"), (f'"{_HIGH}', "“")]


_JOINT = "@@"
_LINES = pre_tokenizers.Split("\n", "isolated")


def bpe_tokenizer(
    model: Path, settings: Settings, dictionary: Dictionary, is_shared: bool
) -> dict[str, Any]:
    """The content of tokenizer.json for a translation model of Moses' words and BPE.

    Refuses a bundle whose text Hugging Face's tokenizers can't prepare. `is_shared`: the dictionary
    is that of both languages.
    """
    source, language = map(base_language, (settings.source_language, settings.target_language))
    tools, is_greek = (settings.tokenizer, settings.subwords), source == "el"
    obstacles = {
        f"is prepared by tokenizer {tools[0]} and {tools[1]}": tools != ("moses", "subword-nmt"),
        f"is split into the subwords of {settings.vocabulary} only": settings.vocabulary,
        "is lower-cased by the rule of the Greek sigma": settings.lowercase and is_greek,
        "is split at hyphens": settings.aggressive_dash_splits,
        "has a dictionary for each language": not is_shared,
        f"is joined by rules for {language} that look far": language in ("cs", "fi", "ko"),
    }
    for what in (what for what, is_there in obstacles.items() if is_there):
        raise UserError(
            f"the bundle's text {what}, and Hugging Face has no tokenizer that does the same: give "
            "--without-tokenizer for the model alone, or train on word pieces, as "
            "recipes/own_text.sh does"
        )
    words = moses_steps(source, settings.lowercase, settings.normalize_punctuation, settings.escape)
    pieces = map(_piece, dictionary.symbols[dictionary.nspecial :])
    tokenizer = _made(_bpe(pieces, _merges(model, settings)), dictionary, f"$0 {dictionary[EOS]}")
    invisible = normalizers.Replace(Regex(MEANINGLESS.pattern), "")
    tokenizer.normalizer = normalizers.Sequence([invisible, *words])
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    text = detokenization_steps(language)
    tokenizer.decoder = decoders.Sequence([decoders.BPEDecoder(WORD_END), decoders.Fuse(), *text])
    content: dict[str, Any] = json.loads(tokenizer.to_str())
    return content


def text_tokenizer(model: Path, settings: TextSettings, dictionary: Dictionary) -> dict[str, Any]:
    """The content of tokenizer.json for a language model: `text.coding`, with </s> before a text.

    The line break is a second name of </s>, as the end of a line in training.
    """
    special, units = dictionary.symbols[: dictionary.nspecial], dictionary.symbols
    units = units[dictionary.nspecial :]
    if settings.coding == "bpe":
        merges = [(_written(a), _written(b)) for a, b in _merges(model, settings)]
        pieces = (_EMPTY if unit == NOTHING else _written(_piece(unit)) for unit in units)
        units_model = _bpe(pieces, merges)
    else:
        if settings.coding == "characters":
            units = list(map(decode_characters, units))
        numbers = {unit: number for number, unit in enumerate([*special, *units])}
        units_model = models.WordLevel(numbers, unk_token="<unk>")
    tokenizer, line_break = _made(units_model, dictionary, f"{dictionary[EOS]} $0"), "\n"
    if settings.coding == "words":
        symbol = Regex(r"(?<!\S)(?:<s>|<pad>|</s>|<sep>)(?!\S)")  # as in `make_coding`
        unknown = normalizers.Replace(symbol, dictionary[UNK])
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), unknown])
        split = pre_tokenizers.Split(Regex(r"(?:(?!\n)[\s\x{1C}-\x{1F}])+"), "removed")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([_LINES, split])
    elif settings.coding == "characters":
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        tokenizer.decoder = decoders.Fuse()
    else:
        tokenizer.add_tokens([tokenizers.AddedToken(_EMPTY, normalized=True)])
        empty = Regex(r"(?:\A|(?<=\n))(?= )|(?<= )(?= |\n|\z)")
        tokenizer.normalizer = normalizers.Replace(empty, _EMPTY)
        letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        split = pre_tokenizers.Split(" ", "removed")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([_LINES, split, letters])
        words = [decoders.Replace(_EMPTY, WORD_END), decoders.BPEDecoder(WORD_END)]
        tokenizer.decoder = decoders.Sequence(
            [*words, decoders.Replace(" ", "Ġ"), decoders.ByteLevel()]
        )
        line_break = "Ċ" + WORD_END  # among the letters for bytes
    content: dict[str, Any] = json.loads(tokenizer.to_str())
    content["model"]["vocab"][line_break] = EOS  # the library writes no second name
    return content


_EMPTY = "\ue000"  # an empty word, between two spaces; from the private use area


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


def _merges(model: Path, settings: Settings | TextSettings) -> list[tuple[str, str]]:
    return list(dict.fromkeys(read_merges(str(model / str(settings.codes)))))


def _piece(symbol: str) -> str:
    """Hugging Face's name of a piece of subword-nmt's."""
    return symbol.removesuffix(_JOINT) if symbol.endswith(_JOINT) else symbol + WORD_END


def _bpe(pieces: Iterable[str], merges: list[tuple[str, str]]) -> models.Model:
    """A model with the pieces by number, and behind them the merges' other pieces."""
    names = [*SPECIAL_SYMBOLS, *pieces]
    names += [piece for left, right in merges for piece in (left, right, left + right)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return models.BPE(numbers, merges, unk_token="<unk>", end_of_word_suffix=WORD_END)


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
