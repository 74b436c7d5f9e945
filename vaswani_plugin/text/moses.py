"""Moses' rules: normalizes punctuation, tokenizes and detokenizes, by sacremoses.

Every line gives exactly one line, with the same result as sacremoses gives for the line in form NFC
of Unicode: a combining accent would be a word of its own. A language without abbreviations there
has the English ones. A rule of normalization is only tried if the text holds a string that the
rule needs, which makes it eight times as fast.
"""

import re
from collections.abc import Callable
from functools import partial

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from vaswani_plugin.files.lines import join_words
from vaswani_plugin.text.raw_text import base_language, composed


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
    """
    rules = [
        (_needed_text(pattern), re.compile(pattern).sub, replacement)
        for pattern, replacement in MosesPunctNormalizer(lang=base_language(language)).substitutions
    ]

    def normalize(text: str) -> str:
        text += "\n"
        for needed, substitute, replacement in rules:
            if needed in text:
                text = substitute(replacement, text)
        return text.strip()

    return normalize


def make_tokenizer(language: str, aggressive: bool, escape: bool) -> Callable[[str], str]:
    """Returns sacremoses' tokenization: a function from a line to tokens joined by spaces."""
    moses = partial(
        MosesTokenizer(lang=base_language(language)).tokenize,
        aggressive_dash_splits=aggressive,
        return_str=True,
        escape=escape,
    )
    return lambda line: join_words(moses(join_words(composed(line))))


def make_processor(
    language: str, lowercase: bool, normalize: bool, tokenize: bool, aggressive: bool, escape: bool
) -> Callable[[str], str]:
    """Returns the function from a raw line to a tokenized one; `Settings` explains the steps."""
    steps: list[Callable[[str], str]] = [composed]
    if lowercase:
        # Python's lower case of the Turkish I with dot has a combining dot, which becomes a word.
        steps.append(lambda line: line.replace("\u0130", "i").lower())
    if normalize:
        steps.append(make_normalizer(language))
    # A later reader would end the line at a U+2028 or similar inside it.
    steps.append(make_tokenizer(language, aggressive, escape) if tokenize else join_words)

    def process(line: str) -> str:
        for step in steps:
            line = step(line)
        return line

    return process


def make_detokenizer(language: str) -> Callable[[str], str]:
    """Returns the function from a tokenized line, escaped or not, to running text."""
    detokenizer = MosesDetokenizer(lang=base_language(language))
    return lambda line: detokenizer.detokenize(line.split())
