"""Takes sentences out of archives: one output file a member, a sentence a line.

    unpack.py --archive training-parallel-europarl-v7.tgz \\
      --member training/europarl-v7.de-en.en --output raw/europarl.en \\
      --member training/europarl-v7.de-en.de --output raw/europarl.de
    unpack.py --archive deu-eng.zip --member deu.txt --format column:1 --output raw/all.en \\
      --member deu.txt --format column:2 --output raw/all.de
    unpack.py --archive newstest2014-deen-src.en.sgm --output raw/test.en

The archive (.tgz, .tar.gz, .tar, .zip) is read as a stream and never unpacked to disk; any other
file is its own only member. A member named .gz is decompressed, an output named .gz compressed.
All outputs appear together when the last is complete, or none does. Nothing can be written but
the named outputs, whatever names the archive holds.

Formats: text, the bytes as they are, less a byte order mark, plus a missing last line end; sgm,
WMT's and IWSLT's test sets, a <seg> a line in the order of the file; iwslt, training text with
lines of metadata; column:N, between tabs. Entities are resolved in sgm and iwslt. By its name a
member is sgm (.sgm, .sgml, .xml), iwslt (train.tags.*) or else text.
"""

import argparse
import codecs
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import checkout  # noqa: F401

from vaswani_plugin.text.archives import has_members, open_members
from vaswani_plugin.text.corpus_io import (
    BLOCK_BYTES,
    InputError,
    decode_lines,
    run,
    write_bytes_atomically,
)
from vaswani_plugin.text.markup import (
    Segment,
    check_same_segments,
    column,
    read_segments,
    training_sentences,
)


@dataclass(frozen=True)
class Job:
    """A member and its output file; `format` as on the command line."""

    member: str
    format: str
    output: str


def format_of(member: str) -> str:
    """Returns the format that a member's name implies."""
    name = Path(member).name.lower().removesuffix(".gz")
    if name.endswith((".sgm", ".sgml", ".xml")):
        return "sgm"
    return "iwslt" if name.startswith("train.tags.") else "text"


def copy_text(stream: IO[bytes], output: IO[bytes]) -> int:
    """Copies text without decoding it; returns the number of its lines."""
    lines, last = 0, b"\n"
    first = stream.read(len(codecs.BOM_UTF8))
    block = b"" if first == codecs.BOM_UTF8 else first
    while block or (block := stream.read(BLOCK_BYTES)):
        output.write(block)
        lines += block.count(b"\n")
        last, block = block[-1:], b""
    if last != b"\n":
        output.write(b"\n")
        lines += 1
    return lines


def without_mark(lines: Iterator[str]) -> Iterator[str]:
    """Drops the byte order mark that Windows editors write before the first line."""
    for line in lines:
        yield line.removeprefix("\ufeff")
        break
    yield from lines


def sentences(
    job: Job, stream: IO[bytes], name: str, segments: dict[Job, list[Segment]]
) -> Iterator[str]:
    """Yields the sentences of a member with markup; also stores its segments in `segments`."""
    lines = without_mark(decode_lines(stream, name))
    if job.format == "sgm":
        segments[job] = read_segments(lines, name)
        return (segment.text for segment in segments[job])
    if job.format == "iwslt":
        return training_sentences(lines)
    return column(lines, int(job.format.removeprefix("column:")), name)


def passes(jobs: list[Job]) -> Iterator[dict[str, Job]]:
    """Splits jobs into passes over the archive; each pass reads a member at most once."""
    while jobs:
        first: dict[str, Job] = {}
        for job in jobs:
            first.setdefault(job.member, job)
        yield first
        jobs = [job for job in jobs if job not in first.values()]


def unpack(archive: str, jobs: list[Job], same_segments: bool = False) -> dict[Job, int]:
    """Writes every job's output; returns the number of lines of each.

    Args:
        archive: its path.
        jobs: the members, their formats and outputs.
        same_segments: whether each two consecutive sgm members in `jobs` must hold the same
            documents and segments in the same order.

    Raises:
        InputError: the archive, a member or its content is invalid.
        OSError: the archive can't be read or an output can't be written.
    """
    counts: dict[Job, int] = {}
    segments: dict[Job, list[Segment]] = {}
    with ExitStack() as outputs:
        for wanted in passes(jobs):
            with open_members(archive, set(wanted)) as members:
                for member, stream in members:
                    job = wanted[member]
                    name = archive if member == archive else f"{archive}({member})"
                    output = outputs.enter_context(write_bytes_atomically(job.output))
                    if job.format == "text":
                        counts[job] = copy_text(stream, output)
                        continue
                    counts[job] = 0
                    for sentence in sentences(job, stream, name, segments):
                        output.write(sentence.encode("utf-8") + b"\n")
                        counts[job] += 1
        for job in jobs:
            if counts[job] == 0:
                raise InputError(f"{archive}: {job.member} holds no line")
        if same_segments:
            tested = [job for job in jobs if job in segments]
            if len(tested) % 2 or not tested:
                raise InputError(f"--same-segments: {len(tested)} members are sgm, no whole pairs")
            for one, two in zip(tested[::2], tested[1::2], strict=True):
                check_same_segments(segments[one], segments[two], [one.member, two.member])
    return counts


def jobs_of(args: argparse.Namespace) -> list[Job]:
    """Makes jobs from the members, formats and outputs of the command line.

    Raises:
        InputError: the numbers of members, formats and outputs don't match.
    """
    if has_members(args.archive):
        members = [member.removeprefix("./") for member in args.member]
    elif args.member:
        raise InputError(f"--member {args.member[0]}: {args.archive} is no archive, leave it out")
    else:
        members = [args.archive] * len(args.output)
    if len(members) != len(args.output):
        raise InputError(
            f"{len(members)} --member and {len(args.output)} --output: give one output a member"
        )
    formats = args.format
    if len(formats) not in (0, 1, len(members)):
        raise InputError(
            f"{len(formats)} --format for {len(members)} members: none, one for all, or one each"
        )
    for name in formats:
        if not re.fullmatch(r"text|sgm|iwslt|column:[1-9]\d*", name):
            raise InputError(f"--format {name}: must be text, sgm, iwslt or column:N, N from 1")
    formats = formats or [format_of(member) for member in members]
    if len(set(args.output)) < len(args.output):
        raise InputError("--output: every output needs a name of its own")
    if os.path.realpath(args.archive) in map(os.path.realpath, args.output):
        raise InputError(f"--output {args.archive}: this is the archive itself")
    return [
        Job(member, formats[index % len(formats)], output)
        for index, (member, output) in enumerate(zip(members, args.output, strict=True))
    ]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--archive", required=True, help="or a single file")
    parser.add_argument("--member", action="append", default=[], help="path in it; again for more")
    parser.add_argument("--output", action="append", required=True, help="one a member")
    parser.add_argument(
        "--format", action="append", default=[], help="for all or one a member (default: by name)"
    )
    parser.add_argument(
        "--same-segments",
        action="store_true",
        help="sgm members belong together two by two: fail where a pair differs in its documents "
        "and segments or in their order",
    )
    args = parser.parse_args()
    for job, lines in unpack(args.archive, jobs_of(args), args.same_segments).items():
        print(f"{job.output}: {lines:,} lines of {job.member} ({job.format})")


if __name__ == "__main__":
    run(main)
