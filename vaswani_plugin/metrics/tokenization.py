"""Tokenization for published BLEU scores: Moses' rules, and the splitting of compounds.

The paper's English-German scores (tensor2tensor's get_ende_bleu.sh) replace Unicode punctuation,
apply Moses' tokenizer, and then split off hyphens within words.
"""

import re
from collections.abc import Callable
from functools import cache

# tokenizer.perl splits the full stop off the last word of a line, whatever that word is. sacremoses
# does not split it off abbreviations and numbers.
_LAST_STOP = re.compile(r"([^\s.])\.$")
_HYPHEN = re.compile(r"(\S)-(\S)")


@cache
def _punctuation() -> list[tuple[re.Pattern[str], str]]:
    from sacremoses import MosesPunctNormalizer  # takes longer to import than scoring does

    rules = MosesPunctNormalizer.REPLACE_UNICODE_PUNCTUATION
    return [(re.compile(pattern), replacement) for pattern, replacement in rules]


def replace_unicode_punctuation(line: str) -> str:
    """Moses' replace-unicode-punctuation.perl: ASCII for full-width signs and curly quotes."""
    if line.isascii():
        return line
    for pattern, replacement in _punctuation():
        line = pattern.sub(replacement, line)
    return line


def make_scoring_tokenizer(language: str) -> Callable[[str], str]:
    """A function that splits running text into the words that published scores count.

    Args:
        language: two-letter code. Only French words are split at hyphens (Moses' -a), as in the
            paper's English-French scores.
    """
    from vaswani_plugin.text.moses import make_tokenizer  # imports sacremoses

    tokenize = make_tokenizer(language, aggressive=language == "fr", escape=True)
    return lambda line: _LAST_STOP.sub(r"\1 .", tokenize(line))


def split_compounds(line: str) -> str:
    """Tokens with hyphens split off: "a-b" becomes "a ##AT##-##AT## b".

    Matches from left to right don't overlap, so "a-b-c" is split once.
    """
    return _HYPHEN.sub(r"\1 ##AT##-##AT## \2", line)
