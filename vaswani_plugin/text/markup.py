"""Reads sentences from the marked-up files that WMT and IWSLT publish.

- SGML of the WMT test sets (`.sgm`) and IWSLT's test sets (`.xml`): `<seg id="1">` in `<doc
  docid="...">`, tags in upper or lower case. Regular expressions read them, because the files are
  not valid SGML or XML (bare "&", several roots).
- IWSLT's training text (`train.tags.de-en.de`): a sentence a line, lines of metadata between them.
- Columns between tabs (the Tatoeba exports of manythings.org).
"""

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html.entities import html5

from vaswani_plugin.text.messages import InputError

_DOC_OR_SEG = re.compile(r"<(/?)(doc|seg)\b([^>]*)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
# An entity needs its semicolon: "AT&T" and addresses with "&copy=" hold no entity.
_ENTITY = re.compile(r"&(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]*);")
# The look-behind keeps a long run of spaces from quadratic time.
_LINE_END = re.compile(r"(?<![ \t])[ \t]*[\r\n]\s*")
_METADATA = re.compile(
    r"\s*</?(?:url|keywords|speaker|talkid|reviewer|translator|doc|file)\b", re.IGNORECASE
)
_TITLE_TAGS = re.compile(r"</?(?:title|description)>", re.IGNORECASE)


@dataclass(frozen=True)
class Segment:
    """A segment, with the document and number that identify it in the other language."""

    document: str
    number: str
    text: str


def _character(entity: re.Match[str]) -> str:
    if entity[1].startswith("#"):
        return html.unescape(entity[0])
    # `html.unescape` would turn the unknown "&notice;" into "¬ice;".
    return html5.get(f"{entity[1]};", entity[0])


def _resolved(text: str) -> str:
    # Entities first: an entity may be a line end, which must not split the line.
    text = _ENTITY.sub(_character, text)
    return _LINE_END.sub(" ", text).strip()


def _attribute(tag: str, name: str) -> str:
    for key, value in _ATTRIBUTE.findall(tag):
        if key.lower() == name:
            return value.strip("\"'")
    return ""


def read_segments(lines: Iterable[str], name: str) -> list[Segment]:
    """Returns a test set's segments in the order of the file, each text on one line.

    Args:
        lines: of the file.
        name: the file's name in error messages.

    Raises:
        InputError: there is no segment, or a segment isn't closed; names the line.
    """
    content = "\n".join(lines)
    segments: list[Segment] = []
    document = ""
    opened: re.Match[str] | None = None
    for tag in _DOC_OR_SEG.finditer(content):
        closing, kind = tag[1], tag[2].lower()
        if kind == "seg" and closing and opened:
            text = _resolved(content[opened.end() : tag.start()])
            segments.append(Segment(document, _attribute(opened[3], "id"), text))
            opened = None
        elif opened:
            break
        elif kind == "seg" and not closing:
            opened = tag
        elif not closing:
            document = _attribute(tag[3], "docid")
    if opened:
        line = content.count("\n", 0, opened.start()) + 1
        raise InputError(
            f"{name}:{line}: <seg> without </seg>: the file is damaged, fetch it again"
        )
    if not segments:
        raise InputError(f"{name}: no <seg> in it: is it a test set in SGML? See --format")
    return segments


def check_same_segments(first: list[Segment], second: list[Segment], names: list[str]) -> None:
    """Checks that two test sets hold the same documents and segments in the same order.

    Raises:
        InputError: they differ; names the first difference.
    """
    for index in range(max(len(first), len(second))):
        places = [
            f"document {s[index].document!r} segment {s[index].number}" if index < len(s) else "end"
            for s in (first, second)
        ]
        if places[0] != places[1]:
            raise InputError(
                f"{names[0]} and {names[1]} differ at segment {index + 1}: {places[0]} against "
                f"{places[1]}: they aren't the two sides of one test set"
            )


def training_sentences(lines: Iterable[str]) -> Iterator[str]:
    """Yields the sentences of IWSLT's training text; titles and descriptions are sentences too.

    fairseq's prepare-iwslt14.sh drops only the lines of <url>, <talkid> and <keywords>, and keeps
    entities. This function resolves entities, and also drops the names of speakers, reviewers and
    translators.
    """
    for line in lines:
        if not _METADATA.match(line):
            yield _resolved(_TITLE_TAGS.sub("", line))


def column(lines: Iterable[str], number: int, name: str) -> Iterator[str]:
    """Yields column `number`, counted from 1, of tab-separated lines.

    Raises:
        InputError: a line has fewer columns; names the line.
    """
    for count, line in enumerate(lines, start=1):
        cells = line.split("\t", number)
        if len(cells) < number:
            raise InputError(
                f"{name}:{count}: {len(cells)} columns, column {number} was asked for: mend or "
                "remove the line"
            )
        yield cells[number - 1]
