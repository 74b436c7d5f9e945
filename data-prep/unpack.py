"""Extracts sentences from archives: one output file per member, one sentence per line.

    unpack.py --archive training-parallel-europarl-v7.tgz \\
      --member training/europarl-v7.de-en.en --output raw/europarl.en \\
      --member training/europarl-v7.de-en.de --output raw/europarl.de
    unpack.py --archive deu-eng.zip --member deu.txt --format column:1 --output raw/all.en \\
      --member deu.txt --format column:2 --output raw/all.de
    unpack.py --archive newstest2014-deen-src.en.sgm --output raw/test.en

The archive (.tgz, .tar.gz, .tar, .zip) is read as a stream and not unpacked to disk; another file
counts as its own only member. A member named .gz is decompressed, an output named .gz compressed.
The outputs are created together, when all are complete. Only the named outputs are written,
whatever file names the archive has.

Formats:
  text      the bytes unchanged, without a byte order mark, with a line end after the last line
  sgm       test sets of WMT and IWSLT: each <seg> is a line, in the order of the file
  iwslt     IWSLT's training text, without its lines of metadata
  column:N  column N of a file with tabs
Entities are resolved in sgm and iwslt. The default follows the member's name: sgm for .sgm, .sgml
and .xml, iwslt for train.tags.*, otherwise text.
"""

import argparse
import codecs
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import checkout  # noqa: F401

from vaswani_plugin.text.archives import has_members, open_members
from vaswani_plugin.text.corpus_io import BLOCK_BYTES, decode_lines
from vaswani_plugin.text.markup import (
    Segment,
    check_same_segments,
    column,
    read_segments,
    training_sentences,
)
from vaswani_plugin.text.messages import InputError, run
from vaswani_plugin.text.output_files import check_outputs, write_bytes_atomically

OTHER_PACKED = (".bz2", ".tbz2", ".xz", ".txz", ".zst")
"""Endings of packed files that this script does not unpack."""


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


def sentences(
    job: Job, stream: IO[bytes], name: str, segments: dict[Job, list[Segment]]
) -> Iterator[str]:
    """Yields the sentences of a member with markup; also stores its segments in `segments`."""
    lines = decode_lines(stream, name)
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
        InputError: the numbers of members, formats and outputs don't match, or a file is packed in
            another way than by zip or gzip.
    """
    for name in (args.archive, *args.member):
        if name.lower().endswith(OTHER_PACKED):
            raise InputError(f"{name}: only .zip and .gz are unpacked: unpack it by other means")
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
        if not re.fullmatch(r"text|sgm|iwslt|column:[1-9]\d{0,8}", name):
            raise InputError(f"--format {name}: must be text, sgm, iwslt or column:N, N from 1")
    formats = formats or [format_of(member) for member in members]
    check_outputs("--output", args.output, [args.archive])
    return [
        Job(member, formats[index % len(formats)], output)
        for index, (member, output) in enumerate(zip(members, args.output, strict=True))
    ]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--archive", required=True, help="archive, or a single file")
    parser.add_argument(
        "--member", action="append", default=[], help="path in the archive; may be repeated"
    )
    parser.add_argument("--output", action="append", required=True, help="one for each member")
    parser.add_argument(
        "--format",
        action="append",
        default=[],
        help="one for all members, or one for each (default: by name)",
    )
    parser.add_argument(
        "--same-segments",
        action="store_true",
        help="sgm members come in pairs: fail if the two have different documents or segments, or "
        "another order",
    )
    args = parser.parse_args()
    for job, lines in unpack(args.archive, jobs_of(args), args.same_segments).items():
        print(f"{job.output}: {lines:,} lines of {job.member} ({job.format})")


if __name__ == "__main__":
    run(main)
