"""Extracts the sentences of files with markup, one a line, in the order of the files.

    sentences.py de-en/IWSLT14.TED.dev2010.de-en.de.xml de-en/IWSLT14.TEDX.dev2012.de-en.de.xml
    sentences.py de-en/train.tags.de-en.de --output raw/train.de
    sentences.py newstest2021.en-de.all.xml --text src --output test.en
    sentences.py memory.tmx --text de --output memory.de

Files with <seg> are test sets in SGML or XML, as of IWSLT and WMT, or translation memories (TMX):
each <seg> is a line. Of a file with several texts --text names one: its language, src, ref or hyp,
a translator or system. A segment that this text lacks is an empty line, so that two texts
correspond. Many are not valid XML. Other files are IWSLT's training text: a sentence a line, with
lines of metadata between them, which are left out; titles are sentences too. Entities are resolved.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator
from html.entities import html5
from typing import NamedTuple

from checkout import Flags, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.files.lines import read_text
from vaswani_plugin.files.outputs import check_outputs, write_lines

_TAG = re.compile(r"(?i)<(/?)(seg|doc|tmx|tuv?|hyp|(?:src|ref|tst)(?:set)?)(?=[\s/>])([^>]*)>")
_ATTRIBUTE = re.compile(r"""([\w:]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|["']?([^"'>\s]*))""")
_NAMES = ("translator", "system", "sysid", "refid")
# Inside a segment of a TMX file: another program's codes, and the marks of a part of the text.
_INLINE = re.compile(r"(?s)<(bpt|ept|ph|it|ut)\b[^>]*?(?:/>|>.*?</\1>)|</?(?:hi|sub)\b[^>]*>")
# An entity needs its semicolon: "AT&T" and addresses with "&copy=" hold no entity.
_ENTITY = re.compile(r"&(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]*);")
_HIDDEN = re.compile(r"(?s)<!--.*?-->|<!\[CDATA\[(.*?)\]\]>")  # comments; what is no markup
_METADATA = re.compile(r"(?i)\s*</?(?:url|keywords|speaker|talkid|reviewer|translator|doc|file)\b")
_TITLE_TAGS = re.compile(r"(?i)</?(?:title|description)>")


def _character(entity: re.Match[str]) -> str:
    # `html.unescape` would turn the unknown "&notice;" into "¬ice;".
    known = entity[1].startswith("#") or f"{entity[1]};" in html5
    return html.unescape(entity[0]) if known else entity[0]


def resolved(text: str) -> str:
    """Returns a text with its entities resolved, on one line."""
    # Entities first: an entity may be a line end, which must not split the line.
    lines = re.split(r"[\r\n]", _ENTITY.sub(_character, text))
    return " ".join(filter(None, (line.strip() for line in lines)))


class Segment(NamedTuple):
    """A <seg>: its document and number there; src, ref or hyp, language and other names; text."""

    place: tuple[str, str]
    names: list[str]
    text: str


def segments(path: str, content: str) -> Iterator[Segment]:
    """Yields the segments of a file, in their order."""
    inside: list[tuple[str, dict[str, str]]] = []
    is_marked, start, units, number = False, 0, 0, 0
    for tag in _TAG.finditer(content):
        closes, name = bool(tag[1]), tag[2].lower()
        opened = inside[-1][0] if inside else ""
        if "seg" in (name, opened) and closes != (name == opened):
            line = content.count("\n", 0, start if opened == "seg" else tag.start()) + 1
            raise UserError(f"{path}:{line}: <seg> without </seg>: damaged: fetch the file again")
        if not closes:
            inside.append((name, {k.lower(): "".join(v) for k, *v in _ATTRIBUTE.findall(tag[3])}))
            start, units = tag.end(), units + (name == "tu")
            number, is_marked = number + 1 if name == "seg" else 0, is_marked or name == "seg"
            continue
        kinds = dict(inside)
        if name == "seg":
            around = {key: value for _, each in inside for key, value in each.items()}
            document, segment = kinds.get("doc", {}), kinds["seg"]
            place = document.get("docid", document.get("id", "")), segment.get("id", f"{number}")
            if "tu" in kinds:
                place = "unit", f"{units}"
            side = next((each for each in ("src", "ref", "hyp") if each in kinds), "")
            names = [side, around.get("xml:lang", around.get("lang", ""))]
            names += [around[key] for key in _NAMES if key in around]
            yield Segment(place, names, resolved(_INLINE.sub("", content[start : tag.start()])))
        while name in kinds and inside.pop()[0] != name:
            pass
    if inside and is_marked:  # other text may speak of a <doc>
        raise UserError(f"{path}: it ends inside <{inside[-1][0]}>: damaged: fetch the file again")


def sentences(path: str, wanted: list[str]) -> Iterator[str]:
    """Yields the sentences of a file, of the text with the wanted names."""
    content = "\n".join(read_text(path, returns_inside=True))
    marked = _HIDDEN.sub(lambda m: html.escape(m[1] or "\n" * m[0].count("\n")), content)
    every = list(segments(path, re.sub(r"(?i)<seg\b([^>]*)/>", r"<seg\1></seg>", marked)))
    if not every:
        if content.lstrip().startswith(("<?xml", "<!DOCTYPE")):
            raise UserError(f"{path}: an XML file without <seg>, whose text isn't known")
        lines = (line for line in content.split("\n") if not _METADATA.match(line))
        yield from (resolved(_TITLE_TAGS.sub("", line)) for line in lines)
        return

    def has(name: str, names: list[str]) -> bool:  # en is also the name of en-US
        return any(f"{each}-".lower().startswith(f"{name}-".lower()) for each in names)

    chosen = [each for each in every if all(has(name, each.names) for name in wanted)]
    counts = Counter(each.place for each in chosen)
    twice = [" ".join(place) for place, count in counts.items() if count > 1][:1]
    if not chosen or twice or len({tuple(each.names[:2]) for each in chosen}) > 1:
        known = sorted({name for each in chosen or every for name in each.names if name})
        fault = f"has segment {twice[0]} twice" if twice else "has several texts"
        names = ", ".join(known) or "(it has no names)"
        fault = fault if chosen else "has no such text"
        raise UserError(f"{path}: {fault}: name one with --text: {names}")
    texts = {each.place: each.text for each in chosen}
    yield from (texts.get(place, "") for place in dict.fromkeys(each.place for each in every))


def main(flags: Flags) -> None:
    flags.add("input", nargs="+", metavar="FILE", help="plain or .gz")
    flags.add("--output", default="-", help="file (default: standard output)")
    flags.add("--text", action="append", default=[], metavar="NAME", help="its name; repeatable")
    args = flags.parse_args()
    check_outputs("--output", [args.output], args.input)
    write_lines(args.output, (line for path in args.input for line in sentences(path, args.text)))


if __name__ == "__main__":
    run(main, __doc__)
