"""What a text is, whether it has words, and its sentences."""

import re
from collections.abc import Iterable

from vaswani_plugin.errors import UserError

_SIGN = re.compile(r"[^\w\s,;:()'\"&/%-]")
"""A sign that may end a sentence."""
_BLOCK = 5000
"""Characters looked at together: sentencex takes the square of their number for some texts."""
UNSPACED = frozenset(("ja", "km", "lo", "my", "th", "zh"))
"""Languages that put no blank between sentences."""


def check_text(text: object, name: str) -> str:
    """The text, if it is one; errors give it this name.

    Raises:
        UserError: it is another object, such as the NaN of an empty cell of a table, or it holds
            half a surrogate pair, which no encoding can write.
    """
    if not isinstance(text, str):
        raise UserError(f"{name} is {text!r:.40}, which is no text: leave it out, or give a string")
    if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
        raise UserError(
            f"{name} holds half a surrogate pair, or bytes that are not UTF-8 "
            f"({text.encode('utf-8', 'replace').decode()!r:.40}): give it in UTF-8"
        )
    return text


def has_words(text: str) -> bool:
    """Whether a text has a letter or a digit; other texts are not translated but kept."""
    return any(map(str.isalnum, text))


def split_sentences(text: str, language: str) -> list[str]:
    """Cut a text into its sentences, by sentencex, which knows about 300 languages.

    Args:
        text: without line breaks.
        language: a code such as "en"; general rules are used where sentencex does not know it.

    Returns:
        The sentences, each with a word and with the blanks after it: together they are the text.

    Raises:
        UserError: sentencex is not installed.
    """
    last_word = next((n for n in range(len(text) - 1, 0, -1) if text[n].isalnum()), 0)
    if not _SIGN.search(text, 0, last_word):
        return [text]
    try:
        import sentencex  # only where it is needed: most lines are one sentence
    except ModuleNotFoundError as error:
        raise UserError(
            "text of several sentences needs sentencex: pip install sentencex, or say that it is "
            "one (--one-sentence-a-line, in Python one_sentence=True)"
        ) from error
    plain = re.sub(r"\s", " ", text)  # sentencex 1.0 fails at blanks that take several bytes
    found: list[str] = []
    start = 0
    while start < len(text):
        parts = sentencex.segment(language, plain[start : start + _BLOCK])
        if start + _BLOCK < len(text) and len(parts) > 1:
            parts.pop()  # it may go on in the next block
        for part in parts:
            sentence = text[start : start + len(part)]
            start += len(part)
            if found and not (has_words(sentence) and has_words(found[-1])):
                found[-1] += sentence
            else:
                found.append(sentence)
    return found


def join_sentences(sentences: Iterable[str], language: str) -> str:
    """Join translated sentences as their language does."""
    return ("" if language in UNSPACED else " ").join(filter(None, sentences))
