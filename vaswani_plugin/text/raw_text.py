"""Raw text before any tokenization: invisible characters that mean nothing, and its sentences.

Moses' `remove-non-printing-char.perl` replaces every character of Unicode's class C by a blank. Of
these, `remove_invisible` removes controls and what is neither seen nor changes what is seen: a byte
order mark inside a text, zero-width spaces, soft hyphens, noncharacters. It keeps what a script
needs: joiners (U+200C, U+200D) between letters of Persian, Hindi and others and in emoji, marks of
direction in a line with letters from right to left, word breaks (U+200B) in Khmer, Thai, Lao and
Burmese, and the visible signs of class Cf (Arabic number signs).
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import partial

from vaswani_plugin.errors import UserError

_NEVER = (
    "\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # controls that are no white space
    "\xad\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0001"
    "\ufdd0-\ufdef\ufffe\uffff"  # noncharacters
)
_JOINERS, _BREAK = "\u200c\u200d", "\u200b"
_DIRECTIONS = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069"
_TAGS = "\U000e0020-\U000e007f"  # of flags such as that of Scotland
_ARABIC_FORMS = "\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc"
_RIGHT_TO_LEFT = (
    "\u0590-\u061b\u061d-\u08ff\ufb1d-\ufb4f\U00010800-\U00010fff\U0001e800-\U0001efff"
    + _ARABIC_FORMS
)
# Arabic, Syriac, N'Ko, Mongolian, the scripts of India, Sinhala, Tibetan, Burmese, Khmer, Javanese.
_JOINING = (
    "\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u1a20-\u1cff\ua800-\uabff"
    "\U00010a00-\U00011fff" + _ARABIC_FORMS
)
_EMOJI = "\u2190-\u2bff\ufe0f\u20e3\U0001f000-\U0001faff"
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\uaa60-\uaa7f"

_STANDING = re.compile(r"(?:^|\s)[.,](?:\s|$)|&(?:apos|quot|#91|#93|#124);|@-@")
_ATTACHED = re.compile(r"\w[.,]\s*$")

_ANY = re.compile(f"[{_NEVER}{_JOINERS}{_BREAK}{_DIRECTIONS}{_TAGS}]").search
MEANINGLESS = re.compile(
    f"[{_NEVER}]"
    f"|(?<![{_JOINING}{_EMOJI}{_JOINERS}])[{_JOINERS}]+"
    f"|(?<![{_UNSPACED}]){_BREAK}|{_BREAK}(?![{_UNSPACED}])"
    f"|(?<![{_EMOJI}{_TAGS}])[{_TAGS}]+"
)
_DIRECTION = re.compile(f"[{_DIRECTIONS}]")
_LETTER_FROM_RIGHT = re.compile(f"[{_RIGHT_TO_LEFT}]").search


def remove_invisible(line: str) -> str:
    """Returns a line without the invisible characters that mean nothing in it."""
    if line.isprintable() or not _ANY(line):
        return line
    if not _LETTER_FROM_RIGHT(line):
        line = _DIRECTION.sub("", line)
    # Again, because one character may have been kept only by the one before it.
    while (shorter := MEANINGLESS.sub("", line)) != line:
        line = shorter
    return line


composed = partial(unicodedata.normalize, "NFC")  # letter and accent as one character


def canonical(line: str) -> str:
    """Returns a line without invisible characters that mean nothing, in Unicode's form NFC."""
    return composed(remove_invisible(line))


_CHINESE = frozenset(("cmn", "gan", "hak", "lzh", "nan", "wuu", "yue"))
UNSPACED = frozenset(("ja", "zh"))  # no blank between sentences; Thai writes one there alone
_SIGN = re.compile(r"[^\w\s,;:()'\"&/%-]")  # a sign that may end a sentence
_BLOCK = 5000  # characters at once: sentencex takes the square of their number for some texts
_NO_END = re.compile(
    r"\.$|(?<!\w)(?:[^\W\d_]|Bd|MM|Mlle|Mme|Ste?|[Vv]ol)\.\s*$|^\W*(?:[\d.]+|[IVXL]+)\.\W*$"
).search
"""Whether no sentence ends: no blank follows, or after an initial, a title, a list's number."""
_ORDINAL = re.compile(r"(?<![\w:,])(?:\d{1,3}|[IVXL]+)\.\s*$").search
_WITHOUT_ORDINALS = ("en", "fr")
"""Languages in which a number with a stop behind it is no ordinal, as it is in most others."""


def base_language(name: str) -> str:
    """The language that chooses rules: pt of pt-BR, zh of all that are Chinese."""
    language = name.partition("-")[0]
    return "zh" if language in _CHINESE else language


def check_text(text: object, name: str) -> str:
    """The text, unless it is another object, such as the NaN of an empty cell of a table."""
    if not isinstance(text, str):
        raise UserError(f"{name} is {text!r:.40}, which is no text: leave it out, or give a string")
    try:
        text.encode()
    except UnicodeEncodeError:  # sentencepiece's error would name neither
        raise UserError(f"{name} holds half a surrogate pair, not UTF-8: {text!r:.40}") from None
    return text


def has_words(text: str) -> bool:
    """Whether a text has a letter or a digit; other texts are not translated but kept."""
    return any(map(str.isalnum, text))


def split_sentences(text: str, language: str) -> list[str]:
    """Cut a text without line breaks into its sentences, by sentencex, for about 300 languages.

    General rules are used where sentencex does not know the language. Each sentence has a word and
    the blanks after it: together they are the text. Where a stop may be that of an initial or an
    ordinal, no sentence ends.
    """
    last_word = next((n for n in range(len(text) - 1, 0, -1) if text[n].isalnum()), 0)
    if not _SIGN.search(text, 0, last_word):
        return [text]
    import sentencex  # only where it is needed: most lines are one sentence

    base = base_language(language)
    rules = (_NO_END,) if base in _WITHOUT_ORDINALS else (_NO_END, _ORDINAL)
    plain = re.sub(r"\s", " ", text)  # sentencex 1.0 fails at blanks that take several bytes
    sentences: list[str] = []
    start, is_open = 0, False  # whether a sentence is longer than a block
    while start < len(text):
        parts = sentencex.segment(base, plain[start : start + _BLOCK])
        if is_cut := start + _BLOCK < len(text) and len(parts) > 1:
            parts.pop()  # it may go on in the next block
        for part in parts:
            sentence = text[start : start + len(part)]
            start += len(part)
            last = sentences[-1] if sentences else ""
            goes_on = is_open or any(rule(last[-100:]) for rule in rules)
            is_open = False
            if last and (goes_on or not (has_words(sentence) and has_words(last))):
                sentences[-1] += sentence
            else:
                sentences.append(sentence)
        is_open = not is_cut
    return sentences


def join_sentences(sentences: Iterable[str], language: str) -> str:
    """Join translated sentences as their language does."""
    return ("" if base_language(language) in UNSPACED else " ").join(filter(None, sentences))


def punctuation_stands(lines: Sequence[str]) -> bool | None:
    """Whether punctuation stands alone, as after Moses' rules; None: the text has too little."""
    standing = sum(bool(_STANDING.search(line)) for line in lines)
    attached = sum(bool(_ATTACHED.search(line)) for line in lines)
    return standing > attached if 10 * max(standing, attached) >= len(lines) > 0 else None
