"""Extracts sentences from archives: one output file per member, one sentence per line.

    unpack.py --archive training-parallel-europarl-v7.tgz \\
      --member training/europarl-v7.de-en.en --output raw/europarl.en \\
      --member training/europarl-v7.de-en.de --output raw/europarl.de
    unpack.py --archive deu-eng.zip --member deu.txt --format column:1 --output raw/all.en \\
      --member deu.txt --format column:2 --output raw/all.de
    unpack.py --archive newstest2021.en-de.all.xml --set ref:A --output raw/test.de

The archive (.tgz, .tar.gz, .tar, .zip) is read as a stream and not unpacked to disk; another file
counts as its own only member. The outputs are created together, when all are complete. A member
named .gz is decompressed, an output named .gz compressed.

Formats (the default follows the member's name):
  text      the bytes unchanged, without a byte order mark, with a line end after the last line; a
            carriage return inside a line becomes a blank
  sgm       test sets of WMT and IWSLT: each <seg> is a line, in the order of the file
  iwslt     IWSLT's training text, without its lines of metadata
  column:N  column N of a file with tabs
Entities are resolved in sgm and iwslt. `sacrebleu --echo` gives WMT's test sets by their names.
"""

import re

from checkout import parser, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.markup import Job, format_of, has_members, unpack
from vaswani_plugin.text.outputs import check_outputs


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    add = flags.add_argument
    add("--archive", required=True, help="archive, or a single file")
    add("--member", action="append", default=[], help="path in the archive; may be repeated")
    add("--output", action="append", required=True, help="one for each member")
    add("--format", action="append", default=[], help="one for all members, or one for each")
    add("--set", default="", help="of a file with several: src, ref or hyp, or such as ref:A")
    add("--same-segments", action="store_true", help="sgm members come in pairs: compare these")
    args = flags.parse_args()
    if args.member and not has_members(args.archive):
        raise UserError(f"--member {args.member[0]}: {args.archive} is no archive: leave it out")
    for name in (args.archive, *args.member):
        if name.lower().endswith((".bz2", ".tbz2", ".xz", ".txz", ".zst")):
            raise UserError(f"{name}: only .zip and .gz are unpacked: unpack it by other means")
    members = [member.removeprefix("./") for member in args.member]
    members = members or [args.archive] * len(args.output)
    formats = args.format or list(map(format_of, members))
    if len(formats) == 1:
        formats *= len(members)
    if len(members) != len(args.output) or len(formats) != len(members):
        raise UserError(
            f"{len(members)} --member, {len(args.output)} --output, {len(formats)} --format: give "
            "an output for each member, and one format or one for each"
        )
    for name in formats:
        if not re.fullmatch(r"text|sgm|iwslt|column:[1-9]\d{0,8}", name):
            raise UserError(f"--format {name}: must be text, sgm, iwslt or column:N, N from 1")
    check_outputs("--output", args.output, [args.archive])
    jobs = list(map(Job, members, formats, args.output))
    for job, lines in unpack(args.archive, jobs, args.same_segments, args.set).items():
        print(f"{job.output}: {lines:,} lines of {job.member} ({job.format})")


if __name__ == "__main__":
    run(main)
