"""A request to translate, and the sentences of its texts, plain or in HTML."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Self

from lxml import etree, html

from vaswani_plugin.serving.limits import Limits, Refusal
from vaswani_plugin.text.sentences import UNSPACED, has_words, split_sentences

LONGEST_NAME = 40
"""Most characters of a client's value that an error message repeats."""
VERBATIM = frozenset(
    "script style textarea xmp iframe noembed noframes code pre kbd samp svg math template".split()
)
"""Elements of HTML whose content is no running text."""
_DOCUMENT = re.compile(r"\s*<(?:!doctype|html)[\s>]", re.IGNORECASE)
_NOT_IN_HTML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
NAMES = {
    **{"af": "Afrikaans", "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian"},
    **{"bg": "Bulgarian", "bn": "Bengali", "bs": "Bosnian", "ca": "Catalan", "cs": "Czech"},
    **{"cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English"},
    **{"eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian"},
    **{"fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician", "gu": "Gujarati"},
    **{"he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian"},
    **{"id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese"},
    **{"ka": "Georgian", "kk": "Kazakh", "km": "Khmer", "kn": "Kannada", "ko": "Korean"},
    **{"ky": "Kyrgyz", "la": "Latin", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian"},
    **{"mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian", "mr": "Marathi", "ms": "Malay"},
    **{"my": "Burmese", "nb": "Norwegian Bokmål", "ne": "Nepali", "nl": "Dutch"},
    **{"nn": "Norwegian Nynorsk", "no": "Norwegian", "pa": "Punjabi", "pl": "Polish"},
    **{"pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "si": "Sinhala", "sk": "Slovak"},
    **{"sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "sw": "Swahili"},
    **{"ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish"},
    **{"uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese", "zh": "Chinese"},
}
"""English names by ISO 639-1 codes."""


def language_name(code: str) -> str:
    """The English name of a language, or the code itself where it is not in the table."""
    return NAMES.get(code, code)


@dataclass(frozen=True)
class Languages:
    """The codes of the model's languages."""

    source: str
    target: str

    def listed(self) -> list[dict[str, Any]]:
        """The answer of `/languages`."""
        return [
            {"code": self.source, "name": language_name(self.source), "targets": [self.target]},
            {"code": self.target, "name": language_name(self.target), "targets": []},
        ]

    def check(self, source: str, target: str) -> None:
        """Refuse other languages.

        Raises:
            Refusal: with LibreTranslate's message.
        """
        known = (self.source, self.target)
        for code, codes in ((source, (*known, "auto")), (target, known)):
            if code not in codes:
                raise Refusal(400, f"{code[:LONGEST_NAME]} is not supported")
        if source == self.target or target == self.source:
            raise Refusal(
                400,
                f"{language_name(target)} ({target}) is not available as a target language from "
                f"{language_name(source)} ({source})",
            )


class Layout:
    """A text as parts: sentences to translate, and what stays as it is between them.

    Lines are translated sentence by sentence, and so is each stretch of text between two tags of
    HTML. A line without letters and digits stays.

    Args:
        text: plain or HTML.
        languages: of the model.
        is_html: whether it is HTML; it is read and written by lxml.

    Attributes:
        sentences: to translate, without the blanks around them.
        parts: of a plain text: what stays, and numbers of sentences.

    Raises:
        Refusal: HTML whose elements are nested too deeply.
    """

    def __init__(self, text: str, languages: Languages, is_html: bool = False) -> None:
        self.languages = languages
        self.sentences: list[str] = []
        self._root, self.parts = None, []
        if not is_html or text.isspace():
            lines = (self._cut(line) for line in text.split("\n"))
            self.parts = [part for line in lines for part in ("\n", *line)][1:]
            return
        self._root = _parsed(text)
        self._slots = [
            (element, name, self._cut(re.sub(r"\s+", " ", getattr(element, name))))
            for element, name in _texts_in(self._root)
        ]

    def _cut(self, line: str) -> list[str | int]:
        """The parts of a line; its sentences are added to those of the text."""
        if not has_words(line):
            return [line]
        core = line.strip()
        before, after = line.split(core, 1)
        parts: list[str | int] = [before]
        for sentence in split_sentences(core, self.languages.source):
            if len(parts) > 1 and not parts[-1] and self.languages.target not in UNSPACED:
                parts[-1] = " "
            shown = sentence.rstrip()
            blank = "" if self.languages.target in UNSPACED else sentence[len(shown) :]
            parts += [len(self.sentences), blank]
            self.sentences.append(shown)
        parts[-1] = after
        return parts

    def filled(self, translations: Sequence[str]) -> str:
        """The text with a translation in place of each sentence."""

        def joined(parts: list[str | int]) -> str:
            return "".join(translations[p] if isinstance(p, int) else p for p in parts)

        if self._root is None:
            return joined(self.parts)
        for element, name, parts in self._slots:
            setattr(element, name, _NOT_IN_HTML.sub("\ufffd", joined(parts)))
        if self._root.tag == "html":
            return str(etree.tostring(self._root.getroottree(), method="html", encoding="unicode"))
        children = (html.tostring(child, encoding="unicode") for child in self._root)
        return escape(self._root.text or "", quote=False) + "".join(map(str, children))


def _parsed(text: str) -> Any:
    """The root of a document, or a new element around a fragment."""
    parser = html.HTMLParser(huge_tree=True)  # 2048 levels; without it 256
    try:
        if _DOCUMENT.match(text):
            root = html.document_fromstring(text, parser=parser)
        else:
            root = html.fragment_fromstring(text, create_parent="div", parser=parser)
    except etree.LxmlError as error:
        raise Refusal(400, "Invalid request: q can't be read as HTML") from error
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
        raise Refusal(400, "Invalid request: the elements of q are nested too deeply")
    return root


def _texts_in(root: Any) -> Iterator[tuple[Any, str]]:
    """The texts to translate, each as an element and the name of its attribute, text or tail."""
    is_on = [True]
    for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        if event == "start":
            is_on.append(_is_translated(element, is_on[-1]))
            if is_on[-1] and element.text:
                yield element, "text"
            continue
        if event == "end":
            is_on.pop()
        if is_on[-1] and element.tail and element is not root:
            yield element, "tail"


def _is_translated(element: Any, inherited: bool) -> bool:
    """As the HTML standard says of `translate`; Google's class has the same meaning."""
    if element.tag in VERBATIM or "notranslate" in element.get("class", "").split():
        return False
    told = element.get("translate")
    return inherited if told is None else told.strip().lower() in ("", "yes")


@dataclass(frozen=True)
class TranslationRequest:
    """A request to translate, checked.

    Args:
        layouts: of its texts.
        is_list: whether it gave a list of texts, and gets a list.
        is_auto: whether its source language is "auto".
        alternatives: how many translations it asks for beside the best one.
    """

    layouts: list[Layout]
    is_list: bool
    is_auto: bool
    alternatives: int

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], languages: Languages, limits: Limits) -> Self:
        """Read the fields `q`, `source`, `target`, and optionally `format` and `alternatives`.

        Raises:
            Refusal: with LibreTranslate's message.
        """
        texts = texts_of(fields, limits)
        source, target = (_word(fields, name) for name in ("source", "target"))
        languages.check(source, target)
        form = _word(fields, "format", "text")
        if form not in ("text", "html"):
            raise Refusal(400, f"{form[:LONGEST_NAME]} format is not supported")
        alternatives = number_of(fields, "alternatives", 0, limits.alternatives)
        layouts = [Layout(text, languages, form == "html") for text in texts]
        return cls(layouts, isinstance(fields["q"], list), source == "auto", alternatives)

    @property
    def sentences(self) -> list[str]:
        """The sentences of all texts."""
        return [sentence for layout in self.layouts for sentence in layout.sentences]

    def answer(self, found: Sequence[Sequence[str]], source: str) -> dict[str, Any]:
        """The answer of `/translate`.

        Args:
            found: translations of each of `sentences`, the best one first.
            source: the model's source language.
        """
        texts: list[list[str]] = []
        start = 0
        for layout in self.layouts:
            own = found[start : start + len(layout.sentences)]
            start += len(layout.sentences)
            most = max(map(len, own), default=1)
            # A sentence with fewer translations repeats its last one.
            texts.append([layout.filled([t[min(n, len(t) - 1)] for t in own]) for n in range(most)])
        answer: dict[str, Any] = {"translatedText": [each[0] for each in texts]}
        if self.alternatives:
            answer["alternatives"] = [each[1:] for each in texts]
        if self.is_auto:
            answer["detectedLanguage"] = [undetected(source)] * len(texts)
        return answer if self.is_list else {name: value[0] for name, value in answer.items()}


def undetected(source: str) -> dict[str, Any]:
    """The answer for an undetected language: the model's source language, with confidence 0."""
    return {"confidence": 0.0, "language": source}


def texts_of(fields: Mapping[str, Any], limits: Limits, name: str = "q") -> list[str]:
    """The texts of a field: a string or a list.

    Raises:
        Refusal: the field is missing or no text (400), or it is too long (413).
    """
    value = fields.get(name)
    if not value:
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise Refusal(
            400, f"Invalid request: {name} parameter is not a string or a list of strings"
        )
    check_size(len(texts), limits.texts)
    check_size(sum(map(len, texts)), limits.characters)
    return texts


def check_size(size: int, limit: int) -> None:
    """Refuse a request that is larger than a limit.

    Raises:
        Refusal: with LibreTranslate's message.
    """
    if size > limit:
        raise Refusal(413, f"Invalid request: request ({size}) exceeds text limit ({limit})")


def _word(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name) or default
    if value is None:
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    if not isinstance(value, str):
        raise Refusal(400, f"Invalid request: {name} parameter is not a string")
    return value


def number_of(fields: Mapping[str, Any], name: str, default: int, most: int) -> int:
    """A field's whole number from 0 to `most`, given as a JSON number or as text.

    Raises:
        Refusal: the field has another value.
    """
    value = fields.get(name, default)
    try:
        number = int(value) if isinstance(value, int | str) else None
    except ValueError:
        number = None
    if number is None:
        raise Refusal(400, f"Invalid request: {name} parameter is not a number")
    if not 0 <= number <= most:
        raise Refusal(400, f"Invalid request: {name} parameter must be from 0 to {most}")
    return number
