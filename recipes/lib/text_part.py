"""Prints a part of a text, plain or .gz, line by line.

    text_part.py train.txt.gz > train.txt
    text_part.py input.txt --from 0.9 --to 0.95 --most 1000 > valid.txt
    text_part.py --words wiki.test.tokens > test.txt

    text_part.py --most 2 --characters 20 test.txt > prompts.txt

--characters cuts each line after N characters. --words removes the spaces at both ends of a line,
which texts of words have.
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaswani_plugin.errors import UserError, run  # noqa: E402
from vaswani_plugin.text.lines import read_lines  # noqa: E402
from vaswani_plugin.text.outputs import write_atomically  # noqa: E402


def part(path: str, start: float, end: float) -> Iterator[str]:
    """Yields the lines from fraction `start` to fraction `end` of a file.

    Adjacent parts share no line.

    Raises:
        UserError: the fractions are no part of a file, or the part has no line.
    """
    if not 0 <= start < end <= 1:
        raise UserError(f"--from {start:g} --to {end:g}: must be fractions, in this order")
    count = sum(1 for _ in read_lines(path))
    first, last = round(count * start), round(count * end)
    if first == last:
        raise UserError(f"{path}: {count} lines are too few to take {start:g} to {end:g} of them")
    return islice(read_lines(path), first, last)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file")
    parser.add_argument("--from", type=float, default=0, dest="start", metavar="FRACTION")
    parser.add_argument("--to", type=float, default=1, dest="end", metavar="FRACTION")
    parser.add_argument(
        "--most", type=int, default=0, metavar="N", help="most lines (default: 0, all)"
    )
    parser.add_argument("--characters", type=int, metavar="N", help="most characters of a line")
    parser.add_argument("--words", action="store_true", help="strip spaces")
    args = parser.parse_args()
    lines = part(args.file, args.start, args.end)
    with write_atomically("-") as write:
        for line in islice(lines, args.most or None):
            write((line.strip(" ") if args.words else line)[: args.characters])


if __name__ == "__main__":
    run(main)
