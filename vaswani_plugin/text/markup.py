"""Reads sentences from what WMT, IWSLT and others publish: archives, and files with markup.

- SGML of the WMT test sets (`.sgm`), the XML of WMT since 2021 and of IWSLT's test sets: `<seg
  id="1">` in `<doc docid="...">`, tags in upper or lower case. Regular expressions read them,
  because many are not valid SGML or XML (bare "&", several roots).
- IWSLT's training text (`train.tags.de-en.de`): a sentence a line, lines of metadata between them.
- Columns between tabs (the Tatoeba exports of manythings.org).

Archives are read as streams and not unpacked to disk. A member's name is only compared, never used
as a path: an archive can't write anywhere.
"""

import codecs
import gzip
import html
import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from html.entities import html5
from pathlib import Path
from typing import IO

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.lines import GZIP_ERRORS, decode_lines, expanded
from vaswani_plugin.text.outputs import write_bytes_atomically

_TAG = re.compile(r"<(/?)(doc|seg|srcset|refset|tstset|src|ref|hyp)\b([^>]*)>", re.IGNORECASE)
_SETS = {
    "srcset": "src",
    "refset": "ref",
    "tstset": "hyp",
    "src": "src",
    "ref": "ref",
    "hyp": "hyp",
}
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
    """A segment, with the document and number that identify it in the other language.

    `set` is src, ref or hyp, with the translator or system (ref:A), where the file says it.
    """

    document: str
    number: str
    text: str
    set: str = ""


@dataclass(frozen=True)
class Job:
    """A member of an archive and its output file; `format` is text, sgm, iwslt or column:N."""

    member: str
    format: str
    output: str


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


def read_segments(lines: Iterable[str], name: str, chosen: str = "") -> list[Segment]:
    """Returns a test set's segments in the order of the file, each text on one line.

    Args:
        lines: of the file.
        name: the file's name in error messages.
        chosen: src, ref or hyp, or one of several by its translator or system, such as ref:A: only
            these segments. "": all.

    Raises:
        UserError: there is no segment, a segment isn't closed (names the line), or a document has
            the same segment twice, as in a file of source, references and systems' outputs.
    """
    content = "\n".join(lines)
    segments: list[Segment] = []
    document = part = ""
    documents = 0
    opened: re.Match[str] | None = None
    for tag in _TAG.finditer(content):
        closing, kind = tag[1], tag[2].lower()
        if kind == "seg" and closing and opened:
            text = _resolved(content[opened.end() : tag.start()])
            segments.append(Segment(document, _attribute(opened[3], "id"), text, part))
            opened = None
        elif opened and kind in ("doc", "seg"):
            break
        elif opened:
            continue
        elif kind == "seg" and not closing:
            opened = tag
        elif kind == "doc" and not closing:
            documents += 1
            document = _attribute(tag[3], "docid") or _attribute(tag[3], "id") or str(documents)
            if part and (system := _attribute(tag[3], "sysid")):
                part = f"{part.partition(':')[0]}:{system}"
        elif kind in _SETS:
            who = _attribute(tag[3], "translator") or _attribute(tag[3], "system")
            part = "" if closing else ":".join(filter(None, (_SETS[kind], who)))
    if opened:
        line = content.count("\n", 0, opened.start()) + 1
        raise UserError(f"{name}:{line}: <seg> without </seg>: the file is damaged, fetch it again")
    sets = list(dict.fromkeys(segment.set for segment in segments))
    segments = [s for s in segments if chosen in ("", s.set, s.set.partition(":")[0])]
    if not segments:
        what = f" of --set {chosen} (there are: {', '.join(sets)})" if sets else ""
        raise UserError(f"{name}: no <seg>{what} in it: is it a test set in SGML? See --format")
    seen: dict[tuple[str, str], str] = {}
    for segment in segments:
        key = segment.document, segment.number
        if segment.number and key in seen:
            raise UserError(
                f"{name}: document {segment.document!r} has segment {segment.number} twice"
                + (f": choose one of --set {', '.join(sets)}" if len(sets) > 1 else "")
            )
        seen[key] = segment.set
    return segments


def check_same_segments(first: list[Segment], second: list[Segment], names: list[str]) -> None:
    """Checks that two test sets hold the same documents and segments in the same order.

    Raises:
        UserError: they differ; names the first difference.
    """
    for index in range(max(len(first), len(second))):
        places = [
            f"document {s[index].document!r} segment {s[index].number}" if index < len(s) else "end"
            for s in (first, second)
        ]
        if places[0] != places[1]:
            raise UserError(
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
        UserError: a line has fewer columns; names the line.
    """
    for count, line in enumerate(lines, start=1):
        cells = line.split("\t", number)
        if len(cells) < number:
            raise UserError(
                f"{name}:{count}: {len(cells)} columns, column {number} was asked for: mend or "
                "remove the line"
            )
        yield cells[number - 1]


def format_of(member: str) -> str:
    """Returns the format that a member's name implies."""
    name = Path(member).name.lower().removesuffix(".gz")
    if name.endswith((".sgm", ".sgml", ".xml")):
        return "sgm"
    return "iwslt" if name.startswith("train.tags.") else "text"


def has_members(archive: str | Path) -> bool:
    """Whether a file's name is that of an archive of several files."""
    return str(archive).lower().endswith((".tar", ".tar.gz", ".tgz", ".zip"))


def _members(archive: str, wanted: set[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yields the wanted members in the archive's order; any other file is its own only member."""
    names: list[str] = []
    found = set()
    with ExitStack() as stack:
        if not has_members(archive):
            yield archive, stack.enter_context(open(archive, "rb"))
            return
        entries: Iterable[zipfile.ZipInfo | tarfile.TarInfo]
        if archive.lower().endswith(".zip"):
            packed = stack.enter_context(zipfile.ZipFile(archive))
            entries, named = packed.infolist(), "filename"
        else:
            # We open the .gz ourselves: tarfile takes a truncated .gz for the end of the archive.
            opener = open if archive.lower().endswith(".tar") else gzip.open
            stream = stack.enter_context(opener(archive, "rb"))
            entries = tar = stack.enter_context(tarfile.open(fileobj=stream, mode="r|"))
            named = "name"
        for entry in entries:
            name = getattr(entry, named).removeprefix("./")
            names.append(name)
            if name in wanted:
                is_zip = isinstance(entry, zipfile.ZipInfo)
                member = packed.open(entry) if is_zip else tar.extractfile(entry)
                if member is None:
                    raise UserError(f"{archive}: {name} is no regular file: name the file itself")
                found.add(name)
                yield name, member
            if found == wanted:
                return
    raise UserError(
        f"{archive}: no member {min(wanted - found)} among its {len(names)} "
        f"({', '.join(names[:5])} ...): correct --member, or fetch the archive again"
    )


def _copy_text(stream: IO[bytes], output: IO[bytes]) -> int:
    """Copies text without decoding it; returns the number of its lines."""
    lines = 0
    for line in stream:
        if not lines:
            line = line.removeprefix(codecs.BOM_UTF8)
        if b"\r" in line.rstrip(b"\r\n"):
            line = line.rstrip(b"\r\n").replace(b"\r", b" ")
        output.write(line if line.endswith(b"\n") else line + b"\n")
        lines += 1
    return lines


def unpack(
    archive: str, jobs: list[Job], same_segments: bool = False, chosen: str = ""
) -> dict[Job, int]:
    """Writes every job's output; returns the number of lines of each.

    Args:
        archive: .tar, .tar.gz, .tgz or .zip. Any other file counts as an archive with one member,
            the file itself under its own name. A member whose name ends in .gz is decompressed.
        jobs: the members, their formats and outputs.
        same_segments: whether each two consecutive sgm members in `jobs` must hold the same
            documents and segments in the same order.
        chosen: as in `read_segments`.

    Raises:
        UserError: the archive, a member or its content is invalid.
        OSError: the archive can't be read or an output can't be written.
    """
    counts: dict[Job, int] = {}
    segments: dict[Job, list[Segment]] = {}
    with ExitStack() as outputs:
        while left := [job for job in jobs if job not in counts]:
            # Each pass reads a member at most once.
            wanted = {job.member: job for job in reversed(left)}
            try:
                for member, packed in _members(archive, set(wanted)):
                    job = wanted[member]
                    name = archive if member == archive else f"{archive}({member})"
                    is_packed = member.lower().endswith(".gz")
                    stream = gzip.GzipFile(fileobj=packed) if is_packed else packed
                    if member != archive or is_packed:
                        stream = expanded(stream, Path(archive).stat().st_size, name)
                    output = outputs.enter_context(write_bytes_atomically(job.output))
                    if job.format == "text":
                        counts[job] = _copy_text(stream, output)
                        continue
                    lines = decode_lines(stream, name, returns_inside=True)
                    if job.format == "sgm":
                        segments[job] = read_segments(lines, name, chosen)
                        sentences = (segment.text for segment in segments[job])
                    elif job.format == "iwslt":
                        sentences = training_sentences(lines)
                    else:
                        sentences = column(lines, int(job.format.removeprefix("column:")), name)
                    counts[job] = 0
                    for sentence in sentences:
                        output.write(sentence.replace("\r", " ").encode("utf-8") + b"\n")
                        counts[job] += 1
            except (*GZIP_ERRORS, tarfile.TarError, zipfile.BadZipFile) as error:
                raise UserError(
                    f"{archive}: broken or cut short ({error}): remove it and fetch it again"
                ) from error
            except (RuntimeError, NotImplementedError) as error:  # encrypted, an unknown method
                raise UserError(f"{archive}: {error}: unpack it by other means") from error
        for job in jobs:
            if counts[job] == 0:
                raise UserError(f"{archive}: {job.member} holds no line")
        if same_segments:
            tested = [job for job in jobs if job in segments]
            if len(tested) % 2 or not tested:
                raise UserError(f"--same-segments: {len(tested)} members are sgm, no whole pairs")
            for one, two in zip(tested[::2], tested[1::2], strict=True):
                check_same_segments(segments[one], segments[two], [one.member, two.member])
    return counts
