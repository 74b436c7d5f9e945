"""Moses' rules as steps of a Hugging Face tokenizer.json: sacremoses in regular expressions.

The library `tokenizers` replaces matches of an expression (Oniguruma's syntax) by a fixed string.
Sacremoses' rules copy parts of a match, so here they look at the context instead: `(?<=A)x(?=B)`.
`\\K` begins the replaced part. A rule of sacremoses uses up its context, and so skips the next
match if they share a letter: `rock'n'roll` is split once. `_once` does the same for two matches in
a row; in three in a row (a'b'c'd) the third one stays whole.
"""

import re
from collections.abc import Iterable
from typing import Any

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
from sacremoses.util import CJKChars

from vaswani_plugin.errors import UserError

Step = dict[str, Any]
_MOVED, _CLOSING, _CLOSED, _LOW, _HIGH, _JOINT = "\ue001\ue002\ue003\ue004\ue005\ue006"
"""Marks of the steps, from the private use area; none remains in the result."""
_GAP = f"[ {_JOINT}]"
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
        steps.append((f"(?<=[{cjk}]) (?=[{cjk}])", _JOINT))
    steps.append((rf"(?<={_GAP})[{currency}(\[{{¿¡]+\K{_GAP}", _JOINT))
    steps.append((rf"{_GAP}(?=[,.?!:;\\%}})\]]+{_GAP})", _JOINT))
    if language == "en":
        steps.append((rf"(?<=\S) (?='[{alphabetic}])", _JOINT))
    if language in ("fr", "it", "ga"):
        steps.append((rf"(?<=[{alphabetic}]') (?=[{alphabetic}])", _JOINT))
    steps += _quotes(language == "en")
    if language == "fr":  # "Vraiment ?" keeps its space
        steps.append((rf"{_GAP}(?=[?!:;\\%]{_GAP})", " "))
    steps += [(_JOINT, ""), (" {2,}", " "), (r"\A +| +\z", "")]
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
        steps.append((rf"{follows}{quote}{kind}\K{_GAP}", _JOINT))
        steps.append((f"{_GAP}(?={_CLOSING})", _JOINT))
        steps.append((_CLOSING, quote + _CLOSED))
    return [*steps, (_CLOSED, ""), (f'"{_LOW}', "„"), (f'"{_HIGH}', "“")]
