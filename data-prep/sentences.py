"""Extracts the sentences of files with markup, one a line, in the order of the files.

    sentences.py de-en/IWSLT14.TED.dev2010.de-en.de.xml de-en/IWSLT14.TEDX.dev2012.de-en.de.xml
    sentences.py de-en/train.tags.de-en.de --output raw/train.de

    sentences.py --set src newstest2021.en-de.all.xml --output test.en
    sentences.py --language de memory.tmx --output memory.de

Files with <seg> are test sets in SGML or XML, as of IWSLT and WMT, or translation memories (TMX):
each <seg> is a line. Of a file with several texts --language or --set names one: src, ref or hyp,
a translator or a system. A segment that this text lacks is an empty line, so that the lines of two
texts of a file correspond. Regular expressions read them, because many are not valid XML (bare "&",
several roots). Other files are IWSLT's training text: a sentence a line, with lines of metadata
between them, which are left out; titles and descriptions are sentences too. Entities are resolved
in both.

fairseq's prepare-iwslt14.sh drops only the lines of <url>, <talkid> and <keywords>, and keeps
entities. `sacrebleu --echo` gives WMT's test sets by their names.
"""

import html
import re
from collections.abc import Iterator
from html.entities import html5
from typing import NamedTuple

from checkout import parser, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.lines import read_text
from vaswani_plugin.text.outputs import check_outputs, write_atomically

_TAG = re.compile(
    r"<(/?)(seg|doc|tu|tuv|src|ref|hyp|srcset|refset|tstset)(?=[\s/>])([^>]*)>", re.IGNORECASE
)
_ATTRIBUTE = re.compile(r"""([\w:]+)\s*=\s*["']?([^"'>\s]*)""")
_SETS = (["src"], ["ref"], ["hyp"])
_NAMES = ("translator", "system", "sysid", "refid")
# Inside a segment of a TMX file: another program's codes, and the marks of a part of the text.
_INLINE = re.compile(r"(?s)<(bpt|ept|ph|it|ut)\b[^>]*?(?:/>|>.*?</\1>)|</?(?:hi|sub)\b[^>]*>")
# An entity needs its semicolon: "AT&T" and addresses with "&copy=" hold no entity.
_ENTITY = re.compile(r"&(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]*);")
_METADATA = re.compile(
    r"\s*</?(?:url|keywords|speaker|talkid|reviewer|translator|doc|file)\b", re.IGNORECASE
)
_TITLE_TAGS = re.compile(r"</?(?:title|description)>", re.IGNORECASE)


def _character(entity: re.Match[str]) -> str:
    if entity[1].startswith("#"):
        return html.unescape(entity[0])
    # `html.unescape` would turn the unknown "&notice;" into "¬ice;".
    return html5.get(f"{entity[1]};", entity[0])


def resolved(text: str) -> str:
    """Returns a text with its entities resolved, on one line."""
    # Entities first: an entity may be a line end, which must not split the line.
    lines = re.split(r"[\r\n]", _ENTITY.sub(_character, text))
    return " ".join(filter(None, (line.strip() for line in lines)))


class Segment(NamedTuple):
    """A <seg>: document and number, language, names of its set, text, and line in the file."""

    place: tuple[str, str]
    language: str
    names: list[str]
    text: str
    line: int


def segments(path: str, content: str) -> Iterator[Segment]:
    """Yields the segments of a file, in their order."""

    def damaged(place: int) -> UserError:
        line = content.count("\n", 0, place) + 1
        return UserError(f"{path}:{line}: <seg> without </seg>: damaged: fetch the file again")

    inside: list[tuple[str, dict[str, str]]] = []
    start = units = number = 0
    for tag in _TAG.finditer(content):
        closes, name = bool(tag[1]), tag[2].lower()
        opened = inside[-1][0] if inside else ""
        if "seg" in (name, opened) and closes != (name == opened):
            raise damaged(start if opened == "seg" else tag.start())
        if not closes:
            inside.append((name, {key.lower(): value for key, value in _ATTRIBUTE.findall(tag[3])}))
            start, units = tag.end(), units + (name == "tu")
            number = number + 1 if name == "seg" else 0
            continue
        if name == "seg":
            own = inside[-1][1]
            around = {key: value for _, each in inside for key, value in each.items()}
            document = next((each for name, each in inside if name == "doc"), {})
            place = document.get("docid", document.get("id", "")), own.get("id", str(number))
            if any(each == "tu" for each, _ in inside):
                place = "", str(units)
            names = [each for each, _ in inside if each in ("src", "ref", "hyp")]
            names += [around[key] for key in _NAMES if key in around]
            language = around.get("xml:lang", around.get("lang", ""))
            text = resolved(_INLINE.sub("", content[start : tag.start()]))
            yield Segment(place, language, names, text, content.count("\n", 0, start) + 1)
        if any(each == name for each, _ in inside):
            while inside.pop()[0] != name:
                pass
    if inside and inside[-1][0] == "seg":
        raise damaged(start)


def sentences(path: str, language: str | None, name: str | None) -> Iterator[str]:
    """Yields the sentences of a file, of the text that `language` and `name` choose."""
    content = "\n".join(read_text(path, returns_inside=True))
    content = re.sub(r"(?i)<seg\b([^>]*)/>", r"<seg\1></seg>", content)
    found = list(segments(path, content))
    if not found:
        if content.lstrip().startswith(("<?xml", "<!DOCTYPE")):
            raise UserError(f"{path}: an XML file without <seg>, whose text isn't known")
        text = (line for line in content.split("\n") if not _METADATA.match(line))
        yield from (resolved(_TITLE_TAGS.sub("", line)) for line in text)
        return
    chosen = [
        each
        for each in found
        if (not language or f"{each.language}-".lower().startswith(f"{language}-".lower()))
        and (not name or name.lower() in map(str.lower, each.names))
    ]
    if not chosen:
        known = sorted({name for each in found for name in (each.language, *each.names) if name})
        raise UserError(f"{path}: has no such text, only {', '.join(known) or 'one'}")
    for flag, texts in (
        ("--language", {each.language for each in chosen}),
        ("--set", {each.names[0] for each in chosen if each.names[:1] in _SETS}),
    ):
        if len(texts) > 1:
            known = sorted(texts)
            raise UserError(f"{path}: has several texts: name one with {flag}: {', '.join(known)}")
    lines = dict.fromkeys((each.place for each in found), "")
    seen = set()
    for each in chosen:
        if each.place in seen:
            known = sorted({name for each in chosen for name in each.names})
            raise UserError(
                f"{path}:{each.line}: segment {' '.join(each.place)} is there again: name one text "
                f"with --set: {', '.join(known) or 'there is no name'}"
            )
        seen.add(each.place)
        lines[each.place] = each.text
    yield from lines.values()


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    flags.add_argument("input", nargs="+", metavar="FILE", help="plain or .gz")
    flags.add_argument("--output", default="-", help="file (default: standard output)")
    flags.add_argument("--language", help="of a file with several, such as de")
    flags.add_argument("--set", metavar="NAME", help="src, ref, hyp, a translator or a system")
    args = flags.parse_args()
    check_outputs("--output", [args.output], args.input)
    with write_atomically(args.output) as write:
        for path in args.input:
            for sentence in sentences(path, args.language, args.set):
                write(sentence)


if __name__ == "__main__":
    run(main)
