"""A request to translate, and the lines of its texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from vaswani_plugin.serving.languages import language_name
from vaswani_plugin.serving.limits import Limits, Refusal
from vaswani_plugin.serving.markup import markup_as_text, split_markup, text_as_markup

LONGEST_NAME = 40
"""Most characters of a client's value that an error message repeats."""


class Layout:
    """A text as pieces: lines to translate, and parts between them that stay as they are.

    Each line of a plain text, and each stretch of text between two tags of HTML, is a line to
    translate, without the blanks around it. A line without letters and digits stays as it is.

    Args:
        text: plain or HTML.
        is_markup: whether it is HTML.
    """

    def __init__(self, text: str, is_markup: bool = False) -> None:
        self.is_markup = is_markup
        self.lines: list[str] = []
        self._pieces: list[str | int] = []
        for piece, is_text in split_markup(text) if is_markup else _split_lines(text):
            shown = markup_as_text(piece) if is_markup and is_text else piece
            core = shown.strip()
            if not is_text or not any(map(str.isalnum, core)):
                self._pieces.append(piece)
                continue
            before, after = shown.split(core, 1)
            self._pieces += [before, len(self.lines), after]
            self.lines.append(" ".join(core.split()) if is_markup else core)

    def filled(self, translations: Sequence[str]) -> str:
        """The text with a translation in place of each line."""
        shown = [text_as_markup(t) for t in translations] if self.is_markup else translations
        return "".join(shown[piece] if isinstance(piece, int) else piece for piece in self._pieces)


def _split_lines(text: str) -> Iterator[tuple[str, bool]]:
    for number, line in enumerate(text.split("\n")):
        if number:
            yield "\n", False
        yield line, True


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
        layouts = [Layout(text, form == "html") for text in texts]
        check_lines(sum(len(layout.lines) for layout in layouts), limits)
        return cls(layouts, isinstance(fields["q"], list), source == "auto", alternatives)

    @property
    def lines(self) -> list[str]:
        """The lines of all texts."""
        return [line for layout in self.layouts for line in layout.lines]

    def answer(self, found: Sequence[Sequence[str]], source: str) -> dict[str, Any]:
        """The answer of `/translate`.

        Args:
            found: translations of each of `lines`, the best one first.
            source: the model's source language.
        """
        texts: list[list[str]] = []
        start = 0
        for layout in self.layouts:
            own = found[start : start + len(layout.lines)]
            start += len(layout.lines)
            most = max(map(len, own), default=1)
            # A line with fewer translations repeats its last one.
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
    _check_size(len(texts), limits.texts)
    _check_size(sum(map(len, texts)), limits.characters)
    return texts


def check_lines(lines: int, limits: Limits) -> None:
    """Refuse more lines than an empty queue can hold.

    Raises:
        Refusal: too many lines.
    """
    _check_size(lines, limits.queue_lines)


def _check_size(size: int, limit: int) -> None:
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
