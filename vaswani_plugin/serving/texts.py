"""What a client may ask for, and the sentences of its texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

from babel import Locale, UnknownLocaleError
from starlette.exceptions import HTTPException

from vaswani_plugin.errors import RANGES
from vaswani_plugin.text.raw_text import UNSPACED, base_language, has_words, split_sentences

LONGEST_NAME = 40  # most characters of a client's value that an error message repeats


class Refusal(HTTPException):
    """Refuses a request; the message is never logged, as it may name what the client sent."""


@dataclass(frozen=True)
class Limits:
    """Limits of a request, of a batch, of the queue and of time (seconds)."""

    # Of a request; more is answered by 413.
    body_bytes: int = 1 << 20
    characters: int = 10_000  # of all texts
    subwords: int = 5_000  # of all texts
    texts: int = 256  # in a list
    alternatives: int = 7  # beside the best translation
    attention_tokens: int = 128  # of a sentence whose attention is shown
    # Of the queue and of a batch.
    queue: int = 1024  # sentences that wait or are being translated; more are answered by 503
    batch: int = 64  # sentences
    batch_subwords: int = 2048  # a longer sentence is a batch of its own
    batch_seconds: float = 0.003  # that a sentence waits for others to join it
    seconds: float = 60  # from the complete body to the answer; then it is 503
    # Of connections, by uvicorn.
    connections: int = 512  # open at once; requests on more are answered by 503
    header_bytes: int = 16 * 1024
    idle_seconds: int = 75  # between two requests
    stop_seconds: int = 8  # for the accepted requests after SIGTERM


@dataclass(frozen=True)
class Languages:
    """The codes of the model's languages."""

    source: str
    target: str

    def listed(self) -> list[dict[str, Any]]:
        """The answer of `/languages`: the source, then the target language."""
        targets: dict[str, list[str]] = {self.source: [self.target], self.target: []}
        return [{"code": code, "name": _name(code), "targets": to} for code, to in targets.items()]

    def undetected(self) -> dict[str, Any]:
        """The answer for an undetected language: the source language, with confidence 0."""
        return {"confidence": 0.0, "language": self.source}

    def check(self, source: str, target: str) -> None:
        """Refuse other languages, with LibreTranslate's message."""
        known = (self.source, self.target)
        for code, codes in ((source, (*known, "auto")), (target, known)):
            if code not in codes:
                raise Refusal(400, f"{code[:LONGEST_NAME]} is not supported")
        if source == self.target or target == self.source:
            to, of = (f"{_name(code)} ({code})" for code in (target, source))
            raise Refusal(400, f"{to} is not available as a target language from {of}")


def _name(code: str) -> str:
    """The English name of a language, or the code itself where it has none."""
    try:
        return Locale.parse(code, sep="-").english_name or code
    except (UnknownLocaleError, ValueError):
        return code


class Layout:
    """A text as parts: sentences to translate, by their numbers, and what stays between them.

    Lines are translated sentence by sentence. A line without letters and digits stays.
    """

    def __init__(self, text: str, languages: Languages) -> None:
        self.sentences: list[str] = []
        self.parts: list[str | int] = []
        spaced = base_language(languages.target) not in UNSPACED
        for line in text.split("\n"):
            if not has_words(line):
                self.parts += ["\n", line]
                continue
            core = line.strip()
            before, after = line.split(core, 1)
            self.parts += ["\n", before]
            for sentence in split_sentences(core, languages.source):
                shown = sentence.rstrip()
                blank = (sentence[len(shown) :] or " ") if spaced else ""
                self.parts += [len(self.sentences), blank]
                self.sentences.append(shown)
            self.parts[-1] = after
        del self.parts[0]

    def filled(self, translations: Sequence[str]) -> str:
        """The text with a translation in place of each sentence."""
        return "".join(translations[p] if isinstance(p, int) else p for p in self.parts)


@dataclass(frozen=True)
class TranslationRequest:
    """A checked request to translate: its texts, how many translations beside the best one."""

    layouts: list[Layout]
    is_list: bool
    is_auto: bool
    alternatives: int

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], languages: Languages, limits: Limits) -> Self:
        """Read the fields `q`, `source`, `target`, and optionally `format` and `alternatives`."""
        texts = texts_of(fields, limits)
        source, target = (_word(fields, name) for name in ("source", "target"))
        languages.check(source, target)
        form = _word(fields, "format", "text")
        if form != "text":
            raise Refusal(400, f"{form[:LONGEST_NAME]} format is not supported")
        alternatives = number_of(fields, "alternatives", 0, limits.alternatives)
        layouts = [Layout(text, languages) for text in texts]
        return cls(layouts, isinstance(fields["q"], list), source == "auto", alternatives)

    def answer(self, translations: Sequence[Sequence[str]], languages: Languages) -> dict[str, Any]:
        """The answer of `/translate`, of the translations of each sentence, the best first."""
        texts, rest = list[list[str]](), iter(translations)
        for layout in self.layouts:
            here = list(islice(rest, len(layout.sentences)))
            most = max(map(len, here), default=1)
            # A sentence with fewer translations repeats its last one.
            ranks = [[each[min(rank, len(each) - 1)] for each in here] for rank in range(most)]
            texts.append(list(dict.fromkeys(map(layout.filled, ranks))))  # each text once
        answer: dict[str, Any] = {"translatedText": [each[0] for each in texts]}
        if self.alternatives:
            answer["alternatives"] = [each[1:] for each in texts]
        if self.is_auto:
            answer["detectedLanguage"] = [languages.undetected()] * len(texts)
        return answer if self.is_list else {name: value[0] for name, value in answer.items()}


def texts_of(fields: Mapping[str, Any], limits: Limits, name: str = "q") -> list[str]:
    """The texts of a field, which is a string or a list of strings."""
    value = fields.get(name)
    if not value:
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        what = "is not a string or a list of strings"
        raise Refusal(400, f"Invalid request: {name} parameter {what}")
    check_size(len(texts), limits.texts, "texts")
    check_size(sum(map(len, texts)), limits.characters, "characters")
    return texts


def check_size(size: int, limit: int, unit: str) -> None:
    """Refuse a request of more characters, or other units, than a limit."""
    if size > limit:
        raise Refusal(413, f"Invalid request: request ({size} {unit}) exceeds limit ({limit})")


def _word(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name) or default
    if isinstance(value, str):
        return value
    wrong = f"{name} parameter is not a string" if value else f"missing {name} parameter"
    raise Refusal(400, f"Invalid request: {wrong}")


def number_of(fields: Mapping[str, Any], name: str, default: int, most: int) -> int:
    """A field's whole number in its range, at most `most`: a JSON number or text; null: default."""
    value = default if fields.get(name) is None else fields[name]
    try:
        number = int(value if type(value) in (int, str) else "")
    except ValueError as error:
        raise Refusal(400, f"Invalid request: {name} parameter is not a number") from error
    if (rule := RANGES[name].refusal(number)) or number > most:
        raise Refusal(400, f"Invalid request: {name} parameter must be {rule or f'at most {most}'}")
    return number
