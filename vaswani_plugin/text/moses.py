"""Moses' rules: normalizes punctuation, tokenizes and detokenizes, by sacremoses.

Every line gives exactly one line, with the same result as sacremoses. This module only tries a rule
if the text holds a string that the rule needs, which is four times as fast.
"""

import re
from collections.abc import Callable, Iterable

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from vaswani_plugin.text.lines import join_words


def _needed_text(pattern: str) -> str:
    """A string that a text must hold for a pattern of sacremoses to change it."""
    if pattern == " +":
        return "  "  # a single space is replaced by a single space
    without_groups = re.split(r"(?<!\\)\(.*?\)", pattern)
    literals = [re.sub(r"\\(\W)", r"\1", part) for part in without_groups]
    return max(literals, key=len).replace(r"\r", "\r")


def make_normalizer(language: str) -> Callable[[str], str]:
    """Returns the punctuation normalization of sacremoses' command and Moses' own script.

    Both keep the line end on a line, and one rule depends on it: in German, Spanish and French, a
    full stop before a closing quotation mark at the end of a line moves behind the mark.

    Args:
        language: two-letter code.
    """
    rules = [
        (_needed_text(pattern), re.compile(pattern).sub, replacement)
        for pattern, replacement in MosesPunctNormalizer(lang=language).substitutions
    ]

    def normalize(text: str) -> str:
        text += "\n"
        for needed, substitute, replacement in rules:
            if needed in text:
                text = substitute(replacement, text)
        return text.strip()

    return normalize


class _Rule:
    """A regular expression that is tried only on a text that holds a certain character."""

    def __init__(self, needed: str, pattern: re.Pattern[str]) -> None:
        self._needed, self._sub = needed, pattern.sub

    def sub(self, replacement: str, text: str) -> str:
        """Same as `re.Pattern.sub`."""
        return self._sub(replacement, text) if self._needed in text else text


def _needing(needed: str, rules: Iterable[tuple[re.Pattern[str], str]]) -> list[tuple[_Rule, str]]:
    return [(_Rule(needed, pattern), replacement) for pattern, replacement in rules]


class _Tokenizer(MosesTokenizer):
    """sacremoses' tokenizer; it tries a rule only where it can match, and builds its sets once."""

    def __init__(self, language: str) -> None:
        super().__init__(lang=language)
        self.lower = frozenset(self.IsLower)
        self.alpha = frozenset(self.IsAlpha)
        self.NONBREAKING_PREFIXES = frozenset(self.NONBREAKING_PREFIXES)
        commas = [self.COMMA_SEPARATE_1, self.COMMA_SEPARATE_2, self.COMMA_SEPARATE_3]
        self.COMMA_SEPARATE_1, self.COMMA_SEPARATE_2, self.COMMA_SEPARATE_3 = _needing(",", commas)
        self.ENGLISH_SPECIFIC_APOSTROPHE = _needing("'", self.ENGLISH_SPECIFIC_APOSTROPHE)
        self.FR_IT_SPECIFIC_APOSTROPHE = _needing("'", self.FR_IT_SPECIFIC_APOSTROPHE)
        self.NON_SPECIFIC_APOSTROPHE = _needing("'", [self.NON_SPECIFIC_APOSTROPHE])[0]
        self.MOSES_ESCAPE_XML_REGEXES = [
            (_Rule(pattern.pattern.lstrip("\\"), pattern), replacement)
            for pattern, replacement in self.MOSES_ESCAPE_XML_REGEXES
        ]

    def islower(self, text: str) -> bool:
        return self.lower.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        return not self.alpha.isdisjoint(text)

    def handles_nonbreaking_prefixes(self, text: str) -> str:
        return super().handles_nonbreaking_prefixes(text) if "." in text else join_words(text)


def make_tokenizer(language: str, aggressive: bool, escape: bool) -> Callable[[str], str]:
    """Returns sacremoses' tokenization: a function from a line to tokens joined by spaces.

    Args:
        language: two-letter code.
        aggressive: as in `make_processor`.
        escape: as in `make_processor`.
    """
    moses = _Tokenizer(language)

    def tokenize(line: str) -> str:
        return join_words(
            moses.tokenize(
                join_words(line),
                return_str=True,
                aggressive_dash_splits=aggressive,
                escape=escape,
            )
        )

    return tokenize


def make_processor(
    language: str, lowercase: bool, normalize: bool, tokenize: bool, aggressive: bool, escape: bool
) -> Callable[[str], str]:
    """Returns the function from a raw line to a tokenized one.

    Args:
        language: two-letter code; it selects rules for apostrophes, abbreviations and quotation
            marks.
        lowercase: convert to lower case first.
        normalize: normalize punctuation.
        tokenize: split the line into tokens.
        aggressive: split words at hyphens as well ("well-known": "well @-@ known").
        escape: write &, |, <, >, ', ", [ and ] as XML entities, as Moses does.
    """
    steps: list[Callable[[str], str]] = []
    if lowercase:
        steps.append(str.lower)
    if normalize:
        steps.append(make_normalizer(language))
    if tokenize:
        steps.append(make_tokenizer(language, aggressive, escape))
    else:
        # A later reader would end the line at a U+2028 or similar inside it.
        steps.append(join_words)

    def process(line: str) -> str:
        for step in steps:
            line = step(line)
        return line

    return process


def make_detokenizer(language: str) -> Callable[[str], str]:
    """Returns the function from a tokenized line, escaped or not, to running text."""
    detokenizer = MosesDetokenizer(lang=language)
    return lambda line: detokenizer.detokenize(line.split())
